/** Compares two transactions: what each of them waited for, and which calls took longer. */

import { useState } from 'preact/hooks';
import type { ReceivedTransaction, WholeTransaction } from '../../../contract/received.ts';
import { type Breakdown, type BreakdownPart, PARTS } from '../../../model/lanes/breakdown.ts';
import { groupDigits } from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import { loadCalls, type ReadCalls } from '../../compare/load_calls.ts';
import { changeSentence } from '../../compare/sentence.ts';
import { joinSums } from '../../compare/sums.ts';
import type { Link } from '../../link/link.ts';
import { beginMissing } from '../../losses/wording.ts';
import { PART_NAMES } from '../breakdown_bar.tsx';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { formatSignedDuration, TimeSpent } from '../time_spent.tsx';
import { TransactionLink } from '../transaction_link.tsx';
import { TransactionTable } from '../transaction_table.tsx';
import { useAnswer } from '../use_answer.ts';
import { askTransaction, buildLanesQuestion, EVENTS_MAX } from '../use_lanes.ts';
import { SearchField, useSearch } from '../use_search.tsx';
import { Losses } from './losses.tsx';
import { OldPair, usePair, usePairCoverage } from './pair.tsx';
import { SumsTable } from './sums_table.tsx';

interface TransactionSide {
  transaction: WholeTransaction;
  /** Calls of the transaction; null if it has too many events. */
  calls: ReadCalls | null;
}

export function Transactions() {
  const { link } = usePage();
  const a = useSide(link.transaction);
  const b = useSide(link.other);
  const isAsked = link.transaction !== null && link.other !== null;
  const pair = usePair(a, b);
  const shown = isAsked ? pair : null;
  const isLoading = isAsked && (a.isLoading || b.isLoading);
  usePairCoverage(shown?.a.transaction.coverage, shown?.b.transaction.coverage);
  const rest = isLoading ? 'Reading both transactions…' : describeChoice(link);
  return (
    <>
      {isLoading && <div class="loading" />}
      {link.transaction !== null && a.failure && <FailureNote failure={a.failure} onRetry={a.askAgain} />}
      {link.other !== null && b.failure && <FailureNote failure={b.failure} onRetry={b.askAgain} />}
      {isLoading && shown && <OldPair />}
      {shown ? <Compared {...shown} /> : <h1>{rest}</h1>}
      <Chosen />
      {shown?.a.calls && shown.b.calls && <Figures a={shown.a.calls} b={shown.b.calls} />}
      <details class="panel" open={!isAsked}>
        <summary>{isAsked ? 'Choose others' : 'Choose'}</summary>
        <Choice />
      </details>
    </>
  );
}

function useSide(transactionId: string | null) {
  const { daemon } = usePage();
  return useAnswer<TransactionSide>(transactionId, async (signal) => {
    const transaction = await askTransaction(daemon, transactionId!, signal);
    const isTooLarge = transaction.event_count > EVENTS_MAX;
    const calls = isTooLarge
      ? null
      : await loadCalls(daemon, buildLanesQuestion(transaction, { clock_offset: [] }), signal);
    return { transaction, calls };
  });
}

function Compared({ a, b }: { a: TransactionSide; b: TransactionSide }) {
  const tooLarge = [a, b].find(({ calls }) => calls === null)?.transaction;
  if (tooLarge)
    return (
      <h1>
        {formatName(tooLarge.transaction_id)} has {groupDigits(tooLarge.event_count)} events: up to{' '}
        {groupDigits(EVENTS_MAX)} are compared.
      </h1>
    );
  const one = a.calls!.breakdown;
  const other = b.calls!.breakdown;
  const without = [a, b].find(({ calls }) => calls!.breakdown === null);
  if (!one || !other)
    return <h1>Nothing that {formatName(without!.transaction.transaction_id)} itself did is recorded.</h1>;
  return (
    <>
      <h1>{describeTransactions(a, b, one, other)}</h1>
      <Losses a={a.calls!.coverage} b={b.calls!.coverage} />
      {[a, b].some(({ calls }) => calls!.isOthersCut) && (
        <p class="loss">▲ More requests of others were under way than were read: their part may be too small.</p>
      )}
    </>
  );
}

function describeTransactions(a: TransactionSide, b: TransactionSide, one: Breakdown, other: Breakdown): string {
  const computeChange = (part: BreakdownPart) => BigInt(other.parts[part] - one.parts[part]);
  const parts = PARTS.map((part) => ({ name: PART_NAMES[part], phrase: PHRASES[part], changeNs: computeChange(part) }));
  const whole = changeSentence(parts, { a: 'A', b: 'B' });
  const [first] = joinSums(a.calls!.sums, b.calls!.sums, null);
  if (!first || first.changeNs === 0n) return whole;
  const place = first.target === null ? '' : ` on ${formatName(first.target)}`;
  const call = `${formatName(first.call)} of ${formatName(first.service)}${place}`;
  return `${whole} Of its calls ${call} changed most: ${formatSignedDuration(first.changeNs)} altogether.`;
}

/** Phrase for each part; it follows words like `11.8 ms of it`. */
const PHRASES: Readonly<Record<BreakdownPart, string>> = {
  queue: 'waiting in the queue of a device',
  service: 'with a device working on its requests',
  sync: 'in the rest of its syncs',
  write: 'in the rest of its writes',
  request: 'with requests outside its calls under way',
  untraced: 'on a CPU, or not recorded',
};

function describeChoice({ transaction, other }: Link): string {
  const [one] = [transaction, other].filter((name) => name !== null);
  return one === undefined ? 'Choose two transactions.' : `Choose a transaction to compare with ${formatName(one)}.`;
}

/** Shows the two transactions of the link. */
function Chosen() {
  const { link, go } = usePage();
  const { transaction, other } = link;
  return (
    <p class="filters">
      {[transaction, other].map((name, side) => (
        <span key={SIDES[side]}>
          {SIDES[side]}: {name === null ? 'none yet' : <TransactionLink transaction={name} />}
        </span>
      ))}
      <button
        type="button"
        disabled={transaction === null && other === null}
        onClick={() => go({ transaction: other, other: transaction }, true)}
      >
        Exchange A and B
      </button>
    </p>
  );
}

/** Lists transactions; buttons choose a transaction as side A or B. */
function Choice() {
  const { link, go } = usePage();
  const [sort, setSort] = useState('recent');
  const search = useSearch(`sort=${sort}`, true);
  const { body, failure, askAgain } = search.found;
  const choose = (change: Partial<Link>) => go({ ...change, other_from: null, other_to: null }, true);
  const renderActions = ({ transaction_id }: ReceivedTransaction) =>
    SIDES.map((side, at) => (
      <button
        type="button"
        key={side}
        aria-pressed={(at === 0 ? link.transaction : link.other) === transaction_id}
        aria-label={`${formatName(transaction_id)} as ${side}`}
        onClick={() => choose(at === 0 ? { transaction: transaction_id } : { other: transaction_id })}
      >
        {side}
      </button>
    ));
  return (
    <>
      <p class="filters">
        <SearchField search={search} />
        <select aria-label="Order" value={sort} onChange={({ currentTarget }) => setSort(currentTarget.value)}>
          <option value="recent">the latest first</option>
          <option value="slowest">the slowest first</option>
        </select>
      </p>
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {body?.transactions.length === 0 && (
        <p>
          {body.part === ''
            ? 'No transaction is recorded yet.'
            : `No id of a transaction contains ${formatName(body.part)}.`}
          {!body.coverage.complete && ` ${beginMissing(body.coverage)}.`}
        </p>
      )}
      {body && body.transactions.length > 0 && (
        <div class="wide">
          <TransactionTable caption="Choose A and B" transactions={body.transactions} renderActions={renderActions} />
        </div>
      )}
    </>
  );
}

function Figures({ a, b }: { a: ReadCalls; b: ReadCalls }) {
  const isLossy = { a: a.coverage?.complete === false, b: b.coverage?.complete === false };
  return (
    <>
      {a.breakdown && b.breakdown && (
        <section class="panel wide">
          <TimeSpent
            heading="Part"
            sides={[
              { name: 'A', ...a.breakdown },
              { name: 'B', ...b.breakdown },
            ]}
            hasChange
          />
        </section>
      )}
      <SumsTable rows={joinSums(a.sums, b.sums, null)} isLossy={isLossy} lengths={null} />
    </>
  );
}

const SIDES = ['A', 'B'];
