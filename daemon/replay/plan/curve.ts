/**
 * How a transaction's duration depends on the extra latency. Each of its events ends at
 *
 *   end(latency) = recorded end + latency * (events of its thread up to it that get the latency)
 *
 * which is a line, so the end of the transaction is the highest line at each latency. Few lines are the highest anywhere:
 *
 *   end  |            /        a  one event gets the latency, and it ends late
 *        |        __/  b       b  many do, and the last of them ends early
 *        |   __--/    a
 *        |--____/________ latency
 */
import { bigColumn, column } from '../../store/blocks/column.ts';
import { OWN_EVENT_COLUMNS, ownEventTest } from '../../store/blocks/own_events.ts';
import type { RecordingBlock } from '../../store/blocks/scanned_block.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import { type ClockOffsets, checkNodes, clockShifts } from './clock_offsets.ts';
import { affectedTest, ONLY_COLUMNS, type Only } from './only.ts';

export interface CurveLine {
  /** How many events that get the latency delay it. */
  events: bigint;
  /** The end without latency. */
  endNs: bigint;
}

/** The lines that are the highest at some latency, by events ascending and by end descending; at least one. */
export type Curve = readonly CurveLine[];

/** A transaction without events that its caller waited for has no duration, whatever the latency. */
const NO_TIME: Curve = [{ events: 0n, endNs: 0n }];

/** Adds a line to those of a curve, which have no more events than it, and drops those that are nowhere the highest. */
export function addLine(lines: CurveLine[], line: CurveLine): void {
  for (let last = lines.at(-1); last; last = lines.at(-1)) {
    if (line.endNs < last.endNs) {
      if (line.events === last.events) return;
      const before = lines.at(-2);
      if (!before || !isCovered(before, last, line)) break;
    }
    lines.pop();
  }
  lines.push(line);
}

/** Whether the middle one of three lines is nowhere higher than both others. */
function isCovered(before: CurveLine, line: CurveLine, after: CurveLine): boolean {
  const untilNs = (before.endNs - line.endNs) * (after.events - line.events);
  const fromNs = (line.endNs - after.endNs) * (line.events - before.events);
  return untilNs >= fromNs;
}

/** The highest lines of several threads, whose ends are those of a clock that was at `originNs` at the start. */
export function curveOf(threads: Iterable<readonly CurveLine[]>, originNs = 0n): Curve {
  const lines: CurveLine[] = [];
  const all = [...threads].flat().map(({ events, endNs }) => ({ events, endNs: endNs - originNs }));
  all.sort((a, b) => (a.events < b.events ? -1 : a.events > b.events ? 1 : 0));
  for (const line of all) addLine(lines, line);
  return lines.length > 0 ? lines : NO_TIME;
}

/** A line of a curve as the API returns it. */
export interface CurveLineView {
  events: number;
  end_ns: bigint;
}

export function curveView(curve: Curve): CurveLineView[] {
  return curve.map(({ events, endNs }) => ({ events: Number(events), end_ns: endNs }));
}

/** The duration with an extra latency. */
export function endWith(curve: Curve, latencyNs: bigint): bigint {
  return curve.reduce((latest, { events, endNs }) => {
    const ns = endNs + events * latencyNs;
    return ns > latest ? ns : latest;
  }, 0n);
}

/** A transaction as a list of transactions describes it. */
export interface CurvedTransaction {
  transactionId: string;
  nodes: readonly string[];
  /** Whether its recordings distinguish write-back. */
  isDivided: boolean;
  /** When the last of its own events ended. */
  lastEndNs: bigint;
}

export interface CurvesRequest {
  transactions: readonly CurvedTransaction[];
  clockOffsetsNs: ClockOffsets;
  only: Only;
}

/**
 * Returns the curve of each transaction; null for one that is not recorded any more. Yields so that other work can run.
 */
export function* curvesOf(
  recordings: Recordings,
  { transactions, clockOffsetsNs, only }: CurvesRequest,
): Generator<void, (Curve | null)[]> {
  checkNodes(clockOffsetsNs, recordings);
  const curves: (Curve | null)[] = [];
  const affected = affectedTest(only);
  for (const transaction of transactions)
    curves.push(yield* recordedCurve(recordings, transaction, clockOffsetsNs, affected));
  return curves;
}

interface Lane {
  events: bigint;
  lines: CurveLine[];
}

const COLUMNS = ['timestamp_ns', 'duration_ns', 'tid', ...ONLY_COLUMNS, ...OWN_EVENT_COLUMNS];

function* recordedCurve(
  recordings: Recordings,
  { transactionId, nodes, isDivided, lastEndNs }: CurvedTransaction,
  clockOffsetsNs: ClockOffsets,
  affected: ReturnType<typeof affectedTest>,
): Generator<void, Curve | null> {
  const shift = clockShifts(clockOffsetsNs, nodes);
  const byNode = new Map<string, Map<number, Lane>>();
  /** The first start, by the aligned clocks. */
  let originNs: bigint | undefined;

  function look(scanned: RecordingBlock): void {
    const { block, dictionary } = scanned;
    const { node } = dictionary;
    const [timestamps, durations] = [bigColumn(block, 'timestamp_ns'), bigColumn(block, 'duration_ns')];
    const tids = column(block, 'tid');
    const [isOwn, isAffected] = [ownEventTest(scanned, transactionId, isDivided), affected(scanned)];
    const lanes = byNode.get(node) ?? new Map<number, Lane>();
    byNode.set(node, lanes);
    const shiftNs = BigInt(shift(node));
    for (let row = 0; row < block.rowCount; row++) {
      const startNs = timestamps[row]! + shiftNs;
      if (originNs === undefined || startNs < originNs) originNs = startNs;
      const lane = lanes.get(tids[row]!) ?? { events: 0n, lines: [] };
      lanes.set(tids[row]!, lane);
      if (isAffected(row)) lane.events++;
      if (isOwn(row)) addLine(lane.lines, { events: lane.events, endNs: startNs + durations[row]! });
    }
  }

  // No own event begins later, and what is written back after that delays none. With aligned clocks it may come first.
  const isAligned = nodes.some((node) => shift(node) !== 0);
  const filter = { transactionId, ...(!isAligned && { toNs: lastEndNs + 1n }) };
  for (const scanned of recordings.scan({ filter, order: 'asc', columns: COLUMNS })) {
    look(scanned);
    yield;
  }
  if (originNs === undefined) return null;
  const threads = [...byNode.values()].flatMap((lanes) => Array.from(lanes.values(), ({ lines }) => lines));
  return curveOf(threads, originNs);
}
