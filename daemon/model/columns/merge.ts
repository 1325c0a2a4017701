/**
 * Merges the events of two answers in order of time, for example the events of a transaction and the events of others
 * at that time.
 */
import {
  createExactValues,
  type EventColumns,
  EXACT_FIELDS,
  getExactValue,
  getRecording,
  startNs,
} from './event_columns.ts';

/**
 * Returns the events of both answers in order of start; an event that both answers have is returned once. If `first`
 * has all events, `first` itself is returned.
 */
export function mergeColumns(first: EventColumns, second: EventColumns): EventColumns {
  if (second.count === 0 || first.count === 0) return second.count === 0 ? first : second;
  const baseNs = first.baseNs < second.baseNs ? first.baseNs : second.baseNs;
  const { sides, rows } = order(first, second);
  const count = rows.length;
  if (count === first.count) return first;
  const merged: EventColumns = {
    count,
    baseNs,
    exact: createExactValues(),
    start: new Float64Array(count),
    duration: new Float64Array(count),
    result: new Float64Array(count),
    bytes: new Float64Array(count),
    queue: new Float64Array(count),
    number: new Float64Array(count),
    type: new Uint8Array(count),
    thread: new Uint32Array(count),
    what: new Uint32Array(count),
    owner: new Uint32Array(count),
    types: new Map([...second.types, ...first.types]),
    errors: new Map([...second.errors, ...first.errors]),
    recordings: [...first.recordings, ...second.recordings],
    threads: [
      ...first.threads,
      ...second.threads.map((thread) => ({ ...thread, recording: thread.recording + first.recordings.length })),
    ],
    whats: [...first.whats, ...second.whats],
    owners: [...first.owners, ...second.owners],
    origins: mergeOrigins(first, second, sides, rows),
  };
  for (const side of [0, 1] as const) {
    const source = side === 0 ? first : second;
    const [threads, whats, owners] = side === 0 ? [0, 0, 0] : [first.threads, first.whats, first.owners].map(getLength);
    const copy = (to: Numbers, from: Numbers, added = 0) => {
      for (let at = 0; at < count; at++) if (sides[at] === side) to[at] = from[rows[at]!]! + added;
    };
    for (const field of EXACT_FIELDS) copy(merged[field], source[field]);
    copy(merged.type, source.type);
    copy(merged.thread, source.thread, threads);
    copy(merged.what, source.what, whats);
    copy(merged.owner, source.owner, owners);
    for (let at = 0; at < count; at++) if (sides[at] === side) keepExact(merged, at, source, rows[at]!);
  }
  return merged;
}

type Numbers = Float64Array | Uint32Array | Uint8Array;

const getLength = ({ length }: readonly unknown[]) => length;

function keepExact(merged: EventColumns, to: number, source: EventColumns, row: number): void {
  const delta = Number(source.baseNs - merged.baseNs);
  const start = source.start[row]! + delta;
  merged.start[to] = start;
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(delta)) {
    const exact = startNs(source, row) - merged.baseNs;
    merged.start[to] = Number(exact);
    merged.exact.start.set(to, exact);
  }
  for (const field of EXACT_FIELDS) {
    const exact = field === 'start' ? undefined : source.exact[field].get(row);
    if (exact !== undefined) merged.exact[field].set(to, exact);
  }
}

/** Returns the side and the row of each merged event. */
function order(first: EventColumns, second: EventColumns): { sides: Uint8Array; rows: Uint32Array } {
  const size = first.count + second.count;
  const sides = new Uint8Array(size);
  const rows = new Uint32Array(size);
  const difference = startDifference(first, second);
  let [one, other, count] = [0, 0, 0];
  while (one < first.count || other < second.count) {
    const isFirst = other === second.count || (one < first.count && difference(one, other) <= 0);
    if (!isFirst && isKnown(first, one, second, other, difference)) {
      other++;
      continue;
    }
    sides[count] = isFirst ? 0 : 1;
    rows[count++] = isFirst ? one++ : other++;
  }
  return { sides: sides.subarray(0, count), rows: rows.subarray(0, count) };
}

/**
 * Returns whether `first` also has the event at `row` of `second`. Compares only the rows of `first` before `end` that
 * have the same start.
 */
function isKnown(
  first: EventColumns,
  end: number,
  second: EventColumns,
  row: number,
  difference: (one: number, other: number) => number,
): boolean {
  for (let one = end - 1; one >= 0 && difference(one, row) === 0; one--)
    if (
      getExactValue(first, 'number', one) === getExactValue(second, 'number', row) &&
      getRecording(first, one).recordingId === getRecording(second, row).recordingId
    )
      return true;
  return false;
}

/**
 * Returns a function that compares two starts: its result is below 0 if the row of `first` starts earlier, and 0 if
 * both start at the same time.
 */
function startDifference(first: EventColumns, second: EventColumns): (one: number, other: number) => number {
  const delta = Number(second.baseNs - first.baseNs);
  const isExact = Number.isSafeInteger(delta);
  return (one, other) => {
    const a = first.start[one]!;
    const b = second.start[other]!;
    // The parts are checked too, because a sum of rounded numbers may look exact.
    if (isExact && Number.isSafeInteger(a) && Number.isSafeInteger(b) && Number.isSafeInteger(b + delta))
      return a - (b + delta);
    const difference = startNs(first, one) - startNs(second, other);
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  };
}

function mergeOrigins(first: EventColumns, second: EventColumns, sides: Uint8Array, rows: Uint32Array) {
  const size = first.origins.row.length + second.origins.row.length;
  const row = new Uint32Array(size);
  const owner = new Uint32Array(size);
  const bytes = new BigUint64Array(size);
  const next: [number, number] = [0, 0];
  let count = 0;
  for (let to = 0; to < sides.length; to++) {
    const at = sides[to] as 0 | 1;
    const from = (at === 0 ? first : second).origins;
    const sourceRow = rows[to]!;
    // Skips the origins of rows that were left out because both sides have them.
    while (next[at] < from.row.length && from.row[next[at]]! < sourceRow) next[at]++;
    for (; from.row[next[at]] === sourceRow; next[at]++) {
      row[count] = to;
      owner[count] = from.owner[next[at]]! + (at === 0 ? 0 : first.origins.owners.length);
      bytes[count++] = from.bytes[next[at]]!;
    }
  }
  const owners = [...first.origins.owners, ...second.origins.owners];
  return { row: row.slice(0, count), owner: owner.slice(0, count), bytes: bytes.slice(0, count), owners };
}
