/**
 * Checks that every event that was made is recorded or reported as lost. The losses in the recording and what is
 * missing of the load are laid over one time line; where they touch they belong together:
 *
 *   losses        |--- ring_full: 7 ---|    |---- agent_killed ----|
 *   missing             ....  ...              ................           .
 *                 exactly 7, not 6 or 8     any number, it says so        untold: wrong
 */
import type { Loss } from '../../agent/recording/format/losses.ts';

/** Writes that follow each other, numbered from `first`. */
export interface Batch {
  first: number;
  count: number;
  beganNs: bigint;
  endedNs: bigint;
}

/** Retention removes events that were recorded; the others are losses of what describes an event, not of events. */
const OF_NO_EVENT: ReadonlySet<string> = new Set([
  'retention',
  'not_recorded_yet',
  'definition_lost',
  'marker_unreadable',
  'marker_flood',
]);
/** The number of events that were lost by these causes is unknown. */
const UNCOUNTED: ReadonlySet<string> = new Set(['agent_killed', 'agent_stopped']);
/** The times of a batch and of a loss are from two clocks that are read one after the other. */
const SLACK_NS = 1_000_000n;

export interface Account {
  made: number;
  recorded: number;
  /** Lost events that are counted to the last one. */
  counted: number;
  /** Events that are missing while no agent recorded, or were not yet written by one that was killed. */
  uncounted: number;
  /** Missing events that no loss covers. */
  untold: number;
  /** Number of time spans in which something is missing, or reported as missing. */
  windows: number;
  byCause: Record<string, number>;
  /** Time spans in which what is reported is not what is missing. */
  wrong: { fromNs: bigint; toNs: bigint; missing: number; told: number; causes: string[] }[];
}

interface Window {
  fromNs: bigint;
  toNs: bigint;
  missing: number;
  told: number;
  /** Losses that are reported without a type: they may be other processes' events. */
  anyones: number;
  causes: Set<string>;
}

export function accountOf(batches: readonly Batch[], isRecorded: (number: number) => boolean, losses: readonly Loss[]) {
  const told = losses.filter(({ cause }) => !OF_NO_EVENT.has(cause));
  const { recorded, missing } = missingOf(batches, isRecorded);
  const windows = merged([...told.map(windowOf), ...missing]);
  const account: Account = {
    made: batches.reduce((sum, { count }) => sum + count, 0),
    recorded,
    counted: 0,
    uncounted: 0,
    untold: 0,
    windows: windows.length,
    byCause: {},
    wrong: [],
  };
  for (const { cause, count } of told) account.byCause[cause] = (account.byCause[cause] ?? 0) + count;
  for (const window of windows) {
    const isUncounted = [...window.causes].some((cause) => UNCOUNTED.has(cause));
    const isRight = window.missing >= window.told && (isUncounted || window.missing <= window.told + window.anyones);
    if (window.causes.size === 0) account.untold += window.missing;
    else if (isUncounted) account.uncounted += window.missing - window.told;
    if (window.causes.size > 0) account.counted += isUncounted ? window.told : window.missing;
    if (!isRight) account.wrong.push({ ...window, causes: [...window.causes] });
  }
  return account;
}

function windowOf({ cause, eventType, count, fromNs, toNs }: Loss): Window {
  const isOurs = eventType !== null || cause === 'store_failed';
  const told = isOurs ? count : 0;
  return { fromNs, toNs, missing: 0, told, anyones: isOurs ? 0 : count, causes: new Set([cause]) };
}

function missingOf(batches: readonly Batch[], isRecorded: (number: number) => boolean) {
  let recorded = 0;
  const missing: Window[] = [];
  for (const { first, count, beganNs, endedNs } of batches) {
    let there = 0;
    for (let number = first; number < first + count; number++) if (isRecorded(number)) there++;
    recorded += there;
    if (there === count) continue;
    const [fromNs, toNs] = [beganNs - SLACK_NS, endedNs + SLACK_NS];
    missing.push({ fromNs, toNs, missing: count - there, told: 0, anyones: 0, causes: new Set() });
  }
  return { recorded, missing };
}

function merged(windows: readonly Window[]): Window[] {
  const found: Window[] = [];
  for (const window of windows.toSorted((a, b) => (a.fromNs < b.fromNs ? -1 : a.fromNs > b.fromNs ? 1 : 0))) {
    const open = found.at(-1);
    if (!open || window.fromNs > open.toNs) {
      found.push({ ...window, causes: new Set(window.causes) });
      continue;
    }
    if (window.toNs > open.toNs) open.toNs = window.toNs;
    open.missing += window.missing;
    open.told += window.told;
    open.anyones += window.anyones;
    for (const cause of window.causes) open.causes.add(cause);
  }
  return found;
}
