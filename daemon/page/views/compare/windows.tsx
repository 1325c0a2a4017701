/** Compares two windows of time: which calls took longer in one of them. */
import { formatShortDuration } from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import { changeSentence } from '../../compare/sentence.ts';
import { type JoinedRow, joinSums, type Lengths } from '../../compare/sums.ts';
import { GROUP_BY, toWindowSums, type WindowStats } from '../../compare/window_sums.ts';
import { filterParameters } from '../../link/filters.ts';
import type { Link } from '../../link/link.ts';
import { Bounds } from '../bounds.tsx';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { useAnswer } from '../use_answer.ts';
import { Losses } from './losses.tsx';
import { OldPair, type Pair, usePair, usePairCoverage } from './pair.tsx';
import { SumsTable } from './sums_table.tsx';

const MINUTE_NS = 60_000_000_000n;

interface Window {
  fromNs: bigint;
  toNs: bigint;
}

export function Windows() {
  const { link } = usePage();
  const one = buildWindow(link.from, link.to);
  const other = buildWindow(link.other_from, link.other_to);
  const a = useWindow(link, one);
  const b = useWindow(link, other);
  const pair = usePair(a, b);
  const shown = one && other ? pair : null;
  const isLoading = one !== null && other !== null && (a.isLoading || b.isLoading);
  usePairCoverage(shown?.a.coverage, shown?.b.coverage);
  const rest = isLoading ? 'Reading both windows…' : 'Choose two windows of time.';
  return (
    <>
      {isLoading && <div class="loading" />}
      {one && a.failure && <FailureNote failure={a.failure} onRetry={a.askAgain} />}
      {other && b.failure && <FailureNote failure={b.failure} onRetry={b.askAgain} />}
      {isLoading && shown && <OldPair />}
      {shown ? <Compared {...shown} /> : <h1>{rest}</h1>}
      <Choice />
      {shown && <Figures {...shown} />}
    </>
  );
}

function buildWindow(fromNs: bigint | null, toNs: bigint | null): Window | null {
  return fromNs !== null && toNs !== null && fromNs < toNs ? { fromNs, toNs } : null;
}

type SummedWindow = WindowStats & Window;

function useWindow(link: Link, window: Window | null) {
  const { daemon } = usePage();
  const parameters = filterParameters(link);
  if (link.has_error) parameters.set('failed', 'true');
  parameters.set('group_by', GROUP_BY);
  if (window) parameters.set('from', window.fromNs.toString());
  if (window) parameters.set('to', window.toNs.toString());
  const path = `/api/stats?${parameters}`;
  return useAnswer<SummedWindow>(window && path, async (signal) => ({
    ...(await daemon.askJson<WindowStats>(path, { signal })),
    ...window!,
  }));
}

type Both = Pair<SummedWindow>;

/** Returns the lengths of the windows; null if they are equal and the sums can therefore be compared directly. */
function computeLengths({ a, b }: Both): Lengths | null {
  const lengths = { a: a.toNs - a.fromNs, b: b.toNs - b.fromNs };
  return lengths.a === lengths.b ? null : lengths;
}

const joinWindowSums = (both: Both) => joinSums(toWindowSums(both.a), toWindowSums(both.b), computeLengths(both));

function Compared(both: Both) {
  const rows = joinWindowSums(both);
  const lengths = computeLengths(both);
  const parts = rows.map((row) => ({ name: nameCall(row), changeNs: row.changeNs }));
  const words = { a: 'those of A', b: 'The calls of B', isPerSecond: lengths !== null };
  return (
    <>
      <h1>{rows.length === 0 ? 'Nothing is recorded in either window.' : changeSentence(parts, words)}</h1>
      <Losses a={both.a.coverage} b={both.b.coverage} />
      {lengths && (
        <p class="quiet">
          A is {formatShortDuration(lengths.a)} long and B {formatShortDuration(lengths.b)}: changes are those of a
          second of each.
        </p>
      )}
    </>
  );
}

function Figures(both: Both) {
  const isLossy = { a: !both.a.coverage.complete, b: !both.b.coverage.complete };
  return <SumsTable rows={joinWindowSums(both)} isLossy={isLossy} lengths={computeLengths(both)} />;
}

function nameCall({ call, target, service }: JoinedRow): string {
  return `${formatName(call)} of ${formatName(service)}${target === null ? '' : ` on ${formatName(target)}`}`;
}

/** Fields for window B; window A is the page's own window. */
function Choice() {
  const { link, go } = usePage();
  const chooseLast = () => {
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    const middle = nowNs - 5n * MINUTE_NS;
    go({ from: middle - 5n * MINUTE_NS, to: middle, other_from: middle, other_to: nowNs, other: null }, true);
  };
  const { from, to } = link;
  return (
    <div class="filters">
      <span>A is the window above.</span>
      <Bounds names={['other_from', 'other_to']} label="B" />
      <button type="button" onClick={chooseLast}>
        The last 5 minutes with those before
      </button>
      {from !== null && to !== null && (
        <button type="button" onClick={() => go({ other_from: to, other_to: to + (to - from), other: null }, true)}>
          A with the time after it
        </button>
      )}
    </div>
  );
}
