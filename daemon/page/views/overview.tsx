/** The slowest transactions of a window, the slowest of all in a sentence. */
import { useEffect } from 'preact/hooks';
import type { Transaction, TransactionList } from '../feed/answers.ts';
import { filtersOf, populationParameters, withoutFilters } from '../link/filters.ts';
import type { Link } from '../link/link.ts';
import { grouped, shortDuration } from '../numbers/exact_times.ts';
import { clockText } from '../numbers/wall_clock.ts';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { shownName } from './names.ts';
import { useAnswer } from './use_answer.ts';
import { WindowForm } from './window_form.tsx';

const LIMIT = 50;

export function Overview() {
  const { daemon, link, setCoverage } = usePage();
  const path = `/api/transactions?${conditionsOf(link)}&sort=slowest&limit=${LIMIT}`;
  const { body, failure, isLoading, askAgain } = useAnswer<TransactionList>(path, (signal) =>
    daemon.askJson<TransactionList>(path, { signal }),
  );
  useEffect(() => setCoverage(body?.coverage ?? null), [body]);
  return (
    <main aria-busy={isLoading}>
      {isLoading && <div class="loading" />}
      <WindowForm />
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {body && body.transactions.length === 0 && <Nothing />}
      {body && body.transactions.length > 0 && <Slowest list={body} />}
    </main>
  );
}

function conditionsOf(link: Link): URLSearchParams {
  const conditions = populationParameters(link);
  if (link.has_error) conditions.set('has_error', 'true');
  return conditions;
}

function Slowest({ list: { transactions, coverage } }: { list: TransactionList }) {
  const { go } = usePage();
  const open = (transaction: string) => go({ view: 'lanes', transaction, session: null, event: null });
  return (
    <>
      <h1>
        {sentenceOf(transactions[0]!, transactions.length)}{' '}
        <button type="button" class="primary" onClick={() => open(transactions[0]!.transaction_id)}>
          Open
        </button>
      </h1>
      {!coverage.complete && <p class="loss">▲ Events are missing in this window, so durations may be too short.</p>}
      <section class="panel wide">
        <table>
          <caption>
            The {transactions.length === LIMIT ? `${LIMIT} slowest` : 'slowest'} transactions, by what their callers
            waited for
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
            {transactions.map((transaction) => (
              <tr key={transaction.transaction_id}>
                <td class="digits">{clockText(BigInt(transaction.first_timestamp_ns))}</td>
                <th scope="row">
                  <button type="button" class="link" onClick={() => open(transaction.transaction_id)}>
                    {shownName(transaction.transaction_id)}
                  </button>
                </th>
                <td>{transaction.services.map(shownName).join(', ')}</td>
                <td>{transaction.nodes.map(shownName).join(', ')}</td>
                <td class="number">{shortDuration(Number(transaction.duration_ns))}</td>
                <td class="number">{grouped(transaction.event_count)}</td>
                <td>{transaction.error_count > 0 ? `✕ ${grouped(transaction.error_count)} failed` : '✓'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}

function sentenceOf({ transaction_id, services, nodes, duration_ns, error_count }: Transaction, count: number): string {
  const place = `${services.map(shownName).join(', ')} on ${nodes.map(shownName).join(', ')}`;
  const failed = error_count > 0 ? ` ${grouped(error_count)} of its calls failed.` : '';
  const which = count === 1 ? 'The only transaction here' : 'The slowest transaction here';
  return `${which}, ${shownName(transaction_id)} of ${place}, took ${shortDuration(Number(duration_ns))}.${failed}`;
}

function Nothing() {
  const { link, go } = usePage();
  const given = [
    ...filtersOf(link).map(({ name, value }) => `${name} ${shownName(value)}`),
    ...(link.has_error ? ['failed'] : []),
    ...(link.from !== null || link.to !== null ? ['this window'] : []),
  ];
  if (given.length > 0)
    return (
      <section class="panel">
        <h1>No transaction matches {given.join(', ')}.</h1>
        <button type="button" onClick={() => go(withoutFilters())}>
          Show all
        </button>
      </section>
    );
  return (
    <section class="panel">
      <h1>No transaction is recorded yet.</h1>
      <p>
        Requests with a <code>traceparent</code> header are labelled by themselves. To label a command, run{' '}
        <code>kreplay exec --transaction order-1 -- make order</code>; <a href="/docs/guide/">the guide</a> has the
        other ways. Events without a transaction are recorded too: <code>kreplay events</code> lists them.
      </p>
    </section>
  );
}
