/**
 * Sentences of an overview with little data: few transactions, no transaction that matches the filters, or no labelled
 * transaction.
 */
import type { ReceivedTransaction } from '../../../contract/received.ts';
import { formatQuantity } from '../../../model/wording/amounts.ts';
import { formatShortDuration, groupDigits } from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import { dropFilters, listFilters } from '../../link/filters.ts';
import type { LatencyMap, SlowestTransactions } from '../../map/questions.ts';
import { usePage } from '../context.ts';
import { TransactionLink } from '../transaction_link.tsx';

/** Names the slowest transaction if there are too few transactions to compare the slowest with the others. */
export function FewSentence({
  map: { of, answer },
  slowest,
}: {
  map: LatencyMap;
  slowest: SlowestTransactions | null;
}) {
  const { count, duration_ns } = answer.total;
  const first = of === 'events' ? undefined : slowest?.transactions[0];
  if (!first) {
    const longest = duration_ns.max === null ? '' : `; the longest took ${formatShortDuration(duration_ns.max)}`;
    return (
      <h1>
        {formatQuantity(count, of === 'events' ? 'event' : 'transaction')} {count === 1 ? 'is' : 'are'} here{longest}.
      </h1>
    );
  }
  return (
    <h1>
      {describeTransaction(first, count)}{' '}
      <TransactionLink transaction={first.transaction_id} isPrimary>
        Open
      </TransactionLink>
    </h1>
  );
}

function describeTransaction(
  { transaction_id, services, nodes, duration_ns, error_count }: ReceivedTransaction,
  count: number,
): string {
  const place = `${services.map(formatName).join(', ')} on ${nodes.map(formatName).join(', ')}`;
  const failed = error_count > 0 ? ` ${groupDigits(error_count)} of its calls failed.` : '';
  const which = count === 1 ? 'The only transaction here' : 'The slowest transaction here';
  return `${which}, ${formatName(transaction_id)} of ${place}, took ${formatShortDuration(BigInt(duration_ns))}.${failed}`;
}

interface SlowestProps {
  transaction: ReceivedTransaction | undefined;
  /**
   * Whether `transaction` belongs to an old selection. It is then hidden but keeps its line, so that the map does not
   * move.
   */
  isOld: boolean;
}

export function SlowestLine({ transaction, isOld }: SlowestProps) {
  if (!transaction) return null;
  const { transaction_id, duration_ns } = transaction;
  return (
    <p style={isOld ? { visibility: 'hidden' } : {}}>
      Slowest: {formatName(transaction_id)}, {formatShortDuration(BigInt(duration_ns))}{' '}
      <TransactionLink transaction={transaction_id} isPrimary>
        Open
      </TransactionLink>
    </p>
  );
}

/** Random, because two commands with the same id form one transaction, which then includes the time between them. */
const EXAMPLE_ID = `order-${Math.floor(Math.random() * 0x10000)
  .toString(16)
  .padStart(4, '0')}`;

const HowToLabel = () => (
  <>
    To label a command, run <code>kreplay exec --transaction {EXAMPLE_ID} -- make order</code>. Requests with a{' '}
    <code>traceparent</code> header are labelled by agents with <code>--http-services</code>;{' '}
    <a href="docs/guide/">the guide</a> has the other ways.
  </>
);

export function Unlabelled() {
  return (
    <p>
      The map is of events, because no transaction is labelled. <HowToLabel />
    </p>
  );
}

export function NothingRecorded({ isUnlabelled }: { isUnlabelled: boolean }) {
  const { link, go } = usePage();
  const given = [
    ...listFilters(link).map(({ name, value }) => `${name.replaceAll('_', ' ')} ${formatName(value)}`),
    ...(link.has_error ? ['failed'] : []),
    ...(link.from !== null || link.to !== null ? ['this window'] : []),
  ];
  if (given.length > 0)
    return (
      <section class="panel">
        <h1>
          No {isUnlabelled || link.of === 'events' ? 'event' : 'transaction'} matches {given.join(', ')}.
        </h1>
        <button type="button" onClick={() => go(dropFilters())}>
          Show all
        </button>
      </section>
    );
  return (
    <section class="panel">
      <h1>No transaction is recorded yet.</h1>
      <p>
        <HowToLabel /> Events without a transaction are recorded too, unless the agent has <code>--only-labelled</code>:{' '}
        <code>kreplay events</code> lists them.
      </p>
    </section>
  );
}
