/** Compares two transactions: what each of them waited for, and which calls took longer. */
import { useEffect, useState } from 'preact/hooks';
import { loadCalls, type ReadCalls } from '../../compare/load_calls.ts';
import { changeSentence } from '../../compare/sentence.ts';
import { joinSums } from '../../compare/sums.ts';
import { type Breakdown, type BreakdownPart, PARTS } from '../../lanes/breakdown.ts';
import { formatExactDuration, formatShortDuration, groupDigits } from '../../numbers/exact_times.ts';
import { PART_NAMES } from '../breakdown_bar.tsx';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { formatName } from '../names.ts';
import { useAnswer } from '../use_answer.ts';
import { askTransaction, buildLanesQuestion, EVENTS_MAX, type WholeTransaction } from '../use_lanes.ts';
import { Losses } from './losses.tsx';
import { OldPair, usePair } from './pair.tsx';
import { formatSignedDuration, SumsTable } from './sums_table.tsx';

interface TransactionSide {
  transaction: WholeTransaction;
  /** Calls of the transaction; null if it has too many events. */
  calls: ReadCalls | null;
}

export function Transactions() {
  const { link, setCoverage } = usePage();
  const a = useSide(link.transaction);
  const b = useSide(link.other);
  const isAsked = link.transaction !== null && link.other !== null;
  const pair = usePair(a, b);
  const shown = isAsked ? pair : null;
  const isLoading = isAsked && (a.isLoading || b.isLoading);
  useEffect(() => {
    const first = shown?.a.transaction.coverage;
    const second = shown?.b.transaction.coverage;
    setCoverage((first?.complete === false ? first : second) ?? first ?? null);
  }, [shown, setCoverage]);
  const rest = isLoading ? 'Reading both transactions…' : 'Choose two transactions.';
  return (
    <>
      {isLoading && <div class="loading" />}
      {link.transaction !== null && a.failure && <FailureNote failure={a.failure} onRetry={a.askAgain} />}
      {link.other !== null && b.failure && <FailureNote failure={b.failure} onRetry={b.askAgain} />}
      {isLoading && shown && <OldPair />}
      {shown ? <Compared {...shown} /> : <h1>{rest}</h1>}
      <Choice />
      {shown?.a.calls && shown.b.calls && <Figures a={shown.a.calls} b={shown.b.calls} />}
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

/** Fields for both sides; the link gets their values when the form is submitted. */
function Choice() {
  const { link, go } = usePage();
  const [a, setA] = useState(link.transaction ?? '');
  const [b, setB] = useState(link.other ?? '');
  useEffect(() => setA(link.transaction ?? ''), [link.transaction]);
  useEffect(() => setB(link.other ?? ''), [link.other]);
  const choose = (event: Event) => {
    event.preventDefault();
    go({ transaction: a.trim() || null, other: b.trim() || null, other_from: null, other_to: null }, true);
  };
  return (
    <form class="filters" onSubmit={choose}>
      <label>
        A
        <input value={a} placeholder="order-1" onInput={({ currentTarget }) => setA(currentTarget.value)} />
      </label>
      <label>
        B
        <input value={b} placeholder="order-2" onInput={({ currentTarget }) => setB(currentTarget.value)} />
      </label>
      <button type="submit" class="primary">
        Compare
      </button>
      <button type="button" onClick={() => go({ transaction: link.other, other: link.transaction }, true)}>
        Exchange A and B
      </button>
      {link.transaction !== null && (
        <button type="button" onClick={() => go({ view: 'lanes', event: null, session: null })}>
          Open A
        </button>
      )}
      {link.other !== null && (
        <button
          type="button"
          onClick={() => go({ view: 'lanes', transaction: link.other, event: null, session: null })}
        >
          Open B
        </button>
      )}
    </form>
  );
}

function Figures({ a, b }: { a: ReadCalls; b: ReadCalls }) {
  const isLossy = { a: a.coverage?.complete === false, b: b.coverage?.complete === false };
  return (
    <>
      {a.breakdown && b.breakdown && <TwoBars a={a.breakdown} b={b.breakdown} />}
      <SumsTable rows={joinSums(a.sums, b.sums, null)} isLossy={isLossy} lengths={null} />
    </>
  );
}

/* Shows the parts of two transactions' times: bars on a common scale, and numbers. */

interface Props {
  a: Breakdown;
  b: Breakdown;
}

function TwoBars({ a, b }: Props) {
  const longest = Math.max(a.durationNs, b.durationNs, 1);
  const shown = PARTS.filter((part) => a.parts[part] > 0 || b.parts[part] > 0);
  const renderCell = (ns: number) => <span title={formatExactDuration(BigInt(ns))}>{formatShortDuration(ns)}</span>;
  return (
    <section class="panel wide">
      <h2>Where the time went</h2>
      {[a, b].map(({ parts, durationNs }, side) => (
        <div key={SIDES[side]} class="side" aria-hidden="true">
          {SIDES[side]}
          <div class="parts" style={{ width: `${(durationNs / longest) * 100}%` }}>
            {shown.map((part) => (
              <div key={part} class={`part ${part}`} style={{ flexGrow: parts[part] }} />
            ))}
          </div>
        </div>
      ))}
      <table>
        <thead>
          <tr>
            <th scope="col">Part</th>
            {['A', 'B', 'Change'].map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((part) => (
            <tr key={part}>
              <th scope="row">
                <span class={`key ${part}`} aria-hidden="true" /> {PART_NAMES[part]}
              </th>
              <td class="number">{renderCell(a.parts[part])}</td>
              <td class="number">{renderCell(b.parts[part])}</td>
              <td class="number">{formatSignedDuration(b.parts[part] - a.parts[part])}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">altogether</th>
            <td class="number">{renderCell(a.durationNs)}</td>
            <td class="number">{renderCell(b.durationNs)}</td>
            <td class="number">{formatSignedDuration(b.durationNs - a.durationNs)}</td>
          </tr>
        </tbody>
      </table>
    </section>
  );
}

const SIDES = ['A', 'B'];
