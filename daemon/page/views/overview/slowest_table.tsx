/** Lists the slowest of the selected transactions; each of them opens as lanes. */
import type { Transaction } from '../../../contract/received.ts';
import { LISTED_MAX, type SlowestTransactions } from '../../map/questions.ts';
import { formatExactDuration, formatShortDuration, groupDigits } from '../../numbers/exact_times.ts';
import { formatWallClock } from '../../numbers/wall_clock.ts';
import { usePage } from '../context.ts';
import { formatName } from '../names.ts';

interface Props {
  slowest: SlowestTransactions;
  /** The shortest selected duration if the list has more than the selection; null to show the whole list. */
  leastNs: bigint | null;
  /** Whether no event is missing in the window. */
  isComplete: boolean;
}

export function useOpen(): (transaction: string) => void {
  const { go } = usePage();
  return (transaction) => go({ view: 'lanes', transaction, session: null, event: null });
}

export function SlowestTable({ slowest: { transactions, isCut }, leastNs, isComplete }: Props) {
  const selected = transactions.filter(({ duration_ns }) => leastNs === null || BigInt(duration_ns) >= leastNs);
  const shown = selected.slice(0, LISTED_MAX);
  if (shown.length === 0 && !isCut) return <p>No transaction is selected.</p>;
  return (
    <>
      <table>
        <caption>
          The {shown.length === LISTED_MAX ? `${LISTED_MAX} slowest` : 'slowest'} transactions, by what their callers
          waited for{isComplete ? '' : ': at least, as events are missing'}
        </caption>
        <thead>
          <tr>
            <th scope="col">Start (UTC)</th>
            <th scope="col">Transaction</th>
            <th scope="col">Services</th>
            <th scope="col">Nodes</th>
            <th scope="col" class="number">
              Duration
            </th>
            <th scope="col" class="number">
              Events
            </th>
            <th scope="col">Result</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((transaction) => (
            <Line key={transaction.transaction_id} transaction={transaction} />
          ))}
        </tbody>
      </table>
      {isCut && <p class="loss">▲ So many are longer than the box that not all of it could be read.</p>}
    </>
  );
}

function Line({ transaction }: { transaction: Transaction }) {
  const open = useOpen();
  const { transaction_id, duration_ns, error_count } = transaction;
  return (
    <tr>
      <td class="digits">{formatWallClock(BigInt(transaction.first_timestamp_ns))}</td>
      <th scope="row">
        <button type="button" class="link" onClick={() => open(transaction_id)}>
          {formatName(transaction_id)}
        </button>
      </th>
      <td>{transaction.services.map(formatName).join(', ')}</td>
      <td>{transaction.nodes.map(formatName).join(', ')}</td>
      <td class="number" title={formatExactDuration(BigInt(duration_ns))}>
        {formatShortDuration(BigInt(duration_ns))}
      </td>
      <td class="number">{groupDigits(transaction.event_count)}</td>
      <td>{error_count > 0 ? `✕ ${groupDigits(error_count)} failed` : '✓'}</td>
    </tr>
  );
}
