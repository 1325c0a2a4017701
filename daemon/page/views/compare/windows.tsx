/** Compares two windows of time: which calls took longer in one of them. */
import { useEffect, useState } from 'preact/hooks';
import { changeSentence } from '../../compare/sentence.ts';
import { type JoinedRow, joinSums, type Lengths } from '../../compare/sums.ts';
import { GROUP_BY, type StatsAnswer, toWindowSums } from '../../compare/window_sums.ts';
import { filterParameters } from '../../link/filters.ts';
import type { Link } from '../../link/link.ts';
import { parseClockNs } from '../../numbers/clock_input.ts';
import { formatShortDuration } from '../../numbers/exact_times.ts';
import { formatWallClock } from '../../numbers/wall_clock.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { formatName } from '../names.ts';
import { useAnswer } from '../use_answer.ts';
import { Losses } from './losses.tsx';
import { OldPair, type Pair, usePair } from './pair.tsx';
import { SumsTable } from './sums_table.tsx';

const MINUTE_NS = 60_000_000_000n;

interface Window {
  fromNs: bigint;
  toNs: bigint;
}

export function Windows() {
  const { link, setCoverage } = usePage();
  const one = buildWindow(link.from, link.to);
  const other = buildWindow(link.other_from, link.other_to);
  const a = useWindow(link, one);
  const b = useWindow(link, other);
  const pair = usePair(a, b);
  const shown = one && other ? pair : null;
  const isLoading = one !== null && other !== null && (a.isLoading || b.isLoading);
  useEffect(() => {
    const first = shown?.a.coverage;
    const second = shown?.b.coverage;
    setCoverage((first?.complete === false ? first : second) ?? first ?? null);
  }, [shown, setCoverage]);
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

type Summed = StatsAnswer & Window;

function useWindow(link: Link, window: Window | null) {
  const { daemon } = usePage();
  const parameters = filterParameters(link);
  if (link.has_error) parameters.set('failed', 'true');
  parameters.set('group_by', GROUP_BY);
  if (window) parameters.set('from', window.fromNs.toString());
  if (window) parameters.set('to', window.toNs.toString());
  const path = `/api/stats?${parameters}`;
  return useAnswer<Summed>(window && path, async (signal) => ({
    ...(await daemon.askJson<StatsAnswer>(path, { signal })),
    ...window!,
  }));
}

type Both = Pair<Summed>;

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

const FIELDS = ['from', 'to', 'other_from', 'other_to'] as const;
type WindowField = (typeof FIELDS)[number];
const LABELS: Readonly<Record<WindowField, string>> = {
  from: 'A from',
  to: 'to',
  other_from: 'B from',
  other_to: 'to',
};

const formatTimes = (link: Link) =>
  Object.fromEntries(
    FIELDS.map((field) => [field, link[field] === null ? '' : formatWallClock(link[field])]),
  ) as Record<WindowField, string>;

function Choice() {
  const { link, go } = usePage();
  const [texts, setTexts] = useState(() => formatTimes(link));
  const [problem, setProblem] = useState('');
  useEffect(
    () => setTexts(formatTimes(link)),
    FIELDS.map((field) => link[field]),
  );
  const choose = (event: Event) => {
    event.preventDefault();
    const times = FIELDS.map((field) => parseClockNs(texts[field]));
    const found = describeProblem(texts, times);
    setProblem(found ?? '');
    if (found !== null) return;
    const [from, to, other_from, other_to] = times;
    go({ from: from!, to: to!, other_from: other_from!, other_to: other_to!, other: null }, true);
  };
  const chooseLast = () => {
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    const middle = nowNs - 5n * MINUTE_NS;
    go({ from: middle - 5n * MINUTE_NS, to: middle, other_from: middle, other_to: nowNs, other: null }, true);
  };
  const { from, to } = link;
  return (
    <form class="filters" onSubmit={choose}>
      {FIELDS.map((field) => (
        <label key={field}>
          {LABELS[field]}
          <input
            class="clock"
            aria-label={`${field.startsWith('other') ? 'B' : 'A'} ${field.endsWith('from') ? 'from' : 'to'}, UTC`}
            value={texts[field]}
            placeholder="2026-11-21 01:37:31"
            onInput={({ currentTarget }) => setTexts({ ...texts, [field]: currentTarget.value })}
          />
        </label>
      ))}
      <button type="submit" class="primary">
        Compare
      </button>
      <button type="button" onClick={chooseLast}>
        The last 5 minutes with those before
      </button>
      {from !== null && to !== null && (
        <button type="button" onClick={() => go({ other_from: to, other_to: to + (to - from), other: null }, true)}>
          A with the time after it
        </button>
      )}
      {problem && (
        <p role="alert" class="failure">
          {problem}
        </p>
      )}
    </form>
  );
}

function describeProblem(
  texts: Readonly<Record<WindowField, string>>,
  times: readonly (bigint | null)[],
): string | null {
  const wrong = FIELDS.findIndex((_, at) => times[at] === null);
  if (wrong >= 0) {
    const text = texts[FIELDS[wrong]!];
    const side = wrong < 2 ? 'A' : 'B';
    if (text.trim() === '') return `${side} needs two times, such as 2026-11-21 01:37:31, in UTC.`;
    return `${formatName(text)} is no time of day in UTC, such as 2026-11-21 01:37:31.`;
  }
  const [from, to, otherFrom, otherTo] = times as bigint[];
  if (from! >= to!) return 'A ends before it begins.';
  return otherFrom! >= otherTo! ? 'B ends before it begins.' : null;
}
