/**
 * Computes the curves of many transactions. Looking up the events of one transaction takes as long as reading hundreds
 * of events. All events in the time range of the transactions are therefore read once, as long as that costs less.
 * After that, the transactions that are still incomplete are looked up one by one:
 *
 *   transactions    |-----|  |----|      |------------------------- ... -|
 *                     |-------|    |---|
 *   read once       |....................|                     then one by one
 */

import { createThreadDelay, endCall, goOn, type ThreadDelay, take } from '../../model/thread_delay.ts';
import { createOwnedRowFinder, OWNED_COLUMNS } from '../../store/blocks/own_events.ts';
import { getBigColumn, getColumn, type RecordingBlock } from '../../store/blocks/scanned_block.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import type { EventFilter } from '../../store/store.ts';
import { type AppliedOffsets, type ClockOffsets, checkNodes, createClockShiftLookup } from './clock_offsets.ts';
import { callTest, createAffectedTest, ONLY_COLUMNS, type OnlyFilter } from './recorded.ts';

/** A transaction, with the fields from the list of transactions that a curve needs. */
export interface CurvedTransaction {
  transactionId: string;
  nodes: readonly string[];
  /** Whether the transaction has write-back events. Most write-back begins after `lastEndNs`. */
  isWrittenBack: boolean;
  eventCount: number;
  firstNs: bigint;
  /** When the last own event ended. */
  lastEndNs: bigint;
}

export interface CurvesRequest extends AppliedOffsets {
  transactions: readonly CurvedTransaction[];
  only: OnlyFilter;
}

/** Number of events that can be read in the time that it takes to look up one transaction. */
const ROWS_OF_ONE = 256;

const COLUMNS = ['timestamp_ns', 'duration_ns', 'tid', ...ONLY_COLUMNS, ...OWNED_COLUMNS];

/**
 * Computes the curve of each transaction; null for a transaction that is not recorded any more. Yields between blocks,
 * so that other work can run.
 */
export function* computeCurves(
  recordings: Recordings,
  { transactions, only, ...offsets }: CurvesRequest,
): Generator<void, (Curve | null)[]> {
  checkNodes(offsets, recordings);
  const { clockOffsetsNs } = offsets;
  const curves: (Curve | null)[] = new Array(transactions.length).fill(null);
  const left = new Set(transactions.keys());
  const isDated = createDatedTest(recordings, clockOffsetsNs);
  const createLimitedSumming = (some: readonly CurvedTransaction[]) => {
    return createSumming(some, {
      clockOffsetsNs,
      only,
      untilNs: some.map((one) => (isDated(one) ? one.lastEndNs : undefined)),
    });
  };

  const dated = [...left].filter((index) => isDated(transactions[index]!));
  const together = dated.map((index) => transactions[index]!);
  const { sums, reachedNs } = yield* readTogether(recordings, together, createLimitedSumming(together));
  for (const [i, index] of dated.entries()) {
    if (reachedNs !== undefined && transactions[index]!.lastEndNs >= reachedNs) continue;
    curves[index] = sums[i]!.finishCurve();
    left.delete(index);
  }
  for (const index of left) {
    const transaction = transactions[index]!;
    const { transactionId, lastEndNs } = transaction;
    const { add, sums } = createLimitedSumming([transaction]);
    const filter = { transactionId, ...(isDated(transaction) && { toNs: lastEndNs + 1n }) };
    yield* scanBlocks(recordings, filter, (some) => {
      add(some);
      return true;
    });
    curves[index] = sums[0]!.finishCurve();
  }
  return curves;
}

/**
 * Creates a test for whether a transaction's curve depends only on events that began by `lastEndNs`. Own events never
 * begin later, and write-back that begins later delays no own event.
 */
function createDatedTest(
  recordings: Recordings,
  clockOffsetsNs: ClockOffsets,
): (transaction: CurvedTransaction) => boolean {
  const ids = recordings.listRecordingStates().map(({ recordingId }) => recordingId);
  // If a recording has two copies, `lastEndNs` covers only one copy, and the other copy may have more events.
  if (new Set(ids).size < ids.length) return () => false;
  return ({ nodes, isWrittenBack }) => {
    const shift = createClockShiftLookup(clockOffsetsNs, nodes);
    // With shifted clocks, a write-back event may begin before all own events.
    return !isWrittenBack || nodes.every((node) => shift(node) === 0n);
  };
}

interface Summing {
  /** Adds the events of the transactions from a block. Blocks must come in order. */
  add(scanned: RecordingBlock): void;
  sums: readonly CurveSums[];
}

interface SummingOptions extends Omit<CurvesRequest, 'transactions'> {
  /** For each transaction, the latest start of the events that count; undefined if all events count. */
  untilNs: readonly (bigint | undefined)[];
}

function createSumming(
  transactions: readonly CurvedTransaction[],
  { clockOffsetsNs, only, untilNs }: SummingOptions,
): Summing {
  const affected = createAffectedTest(only);
  const owned = createOwnedRowFinder(transactions);
  const sums = transactions.map(({ nodes }) => {
    const shift = createClockShiftLookup(clockOffsetsNs, nodes);
    return createCurveSums(shift);
  });
  return {
    sums,
    add(scanned) {
      const { block, dictionary } = scanned;
      const timestamps = getBigColumn(block, 'timestamp_ns');
      const durations = getBigColumn(block, 'duration_ns');
      const tids = getColumn(block, 'tid');
      const isAffected = affected(scanned);
      const isCall = callTest(scanned);
      owned(scanned, (row, owner, isOwn) => {
        const startNs = timestamps[row]!;
        const durationNs = durations[row]!;
        const endNs = untilNs[owner];
        if (endNs !== undefined && startNs > endNs) return;
        const event = { startNs, durationNs, isCall: isCall(row), isAffected: isAffected(row), isOwn };
        sums[owner]!.add(dictionary.node, tids[row]!, event);
      });
    },
  };
}

/**
 * Reads the events of several transactions at once. `reachedNs` is the start of the last event read; undefined if all
 * events were read.
 */
function* readTogether(
  recordings: Recordings,
  transactions: readonly CurvedTransaction[],
  { add, sums }: Summing,
): Generator<void, Pick<Summing, 'sums'> & { reachedNs: bigint | undefined }> {
  if (transactions.length < 2) return { sums, reachedNs: 0n };
  const rowsMax = transactions.reduce((sum, { eventCount }) => sum + eventCount + ROWS_OF_ONE, 0);
  let rows = 0;
  let reachedNs: bigint | undefined;
  yield* scanBlocks(recordings, buildCurveFilter(transactions), (some) => {
    const { rowCount } = some.block;
    if (rowCount === 0) return true;
    add(some);
    rows += rowCount;
    reachedNs = getBigColumn(some.block, 'timestamp_ns')[rowCount - 1]!;
    return rows < rowsMax;
  });
  return { sums, reachedNs: rows < rowsMax ? undefined : reachedNs };
}

function buildCurveFilter(transactions: readonly CurvedTransaction[]): EventFilter {
  let [fromNs, lastNs] = [transactions[0]!.firstNs, 0n];
  const nodes = new Set<string>();
  for (const transaction of transactions) {
    if (transaction.firstNs < fromNs) fromNs = transaction.firstNs;
    if (transaction.lastEndNs > lastNs) lastNs = transaction.lastEndNs;
    for (const node of transaction.nodes) nodes.add(node);
  }
  return { fromNs, toNs: lastNs + 1n, nodes: [...nodes] };
}

/** Reads blocks until `add` returns false. */
function* scanBlocks(
  recordings: Recordings,
  filter: EventFilter,
  add: (scanned: RecordingBlock) => boolean,
): Generator<void, void> {
  for (const scanned of recordings.scan({ filter, order: 'asc', columns: COLUMNS, reusesMemory: true })) {
    if (!add(scanned)) return;
    yield;
  }
}

/*
 * How a transaction's duration depends on the extra latency. Each event ends at
 *
 *   end(latency) = recorded end + latency * (how often its thread has waited for the latency by then)
 *
 * which is a line, so the end of the transaction is the highest line at each latency. Only few lines are the highest at
 * any latency:
 *
 *   end  |            /        a  one call gets the latency, and the call ends late
 *        |        __/  b       b  many calls get the latency, and the last of them ends early
 *        |   __--/    a
 *        |--____/________ latency
 */

export interface CurveLine {
  /** How many times the latency delays the end. */
  events: bigint;
  /** The end without extra latency. */
  endNs: bigint;
}

/** The lines that are the highest at some latency, by ascending `events` and descending `endNs`; at least one line. */
export type Curve = readonly CurveLine[];

/** Curve of a transaction without own events, whose duration is 0 at any latency. */
const NO_TIME: Curve = [{ events: 0n, endNs: 0n }];

/** Adds a line whose `events` is at least that of all other lines, and drops lines that are nowhere the highest. */
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

/** Whether the middle line, of three lines sorted by `events`, is nowhere higher than both other lines. */
function isCovered(before: CurveLine, line: CurveLine, after: CurveLine): boolean {
  const untilNs = (before.endNs - line.endNs) * (after.events - line.events);
  const fromNs = (line.endNs - after.endNs) * (line.events - before.events);
  return untilNs >= fromNs;
}

/**
 * Merges several lists into the curve of the highest lines. `originNs` is the transaction's start, by the same clock as
 * the lines' ends.
 */
export function mergeCurveLines(lists: Iterable<readonly CurveLine[]>, originNs = 0n): Curve {
  const lines: CurveLine[] = [];
  const all = [...lists].flat().map(({ events, endNs }) => ({ events, endNs: endNs - originNs }));
  all.sort((a, b) => (a.events < b.events ? -1 : a.events > b.events ? 1 : 0));
  for (const line of all) addLine(lines, line);
  return lines.length > 0 ? lines : NO_TIME;
}

/** A line of a curve as the API returns it. */
interface CurveLineView {
  events: number;
  end_ns: bigint;
}

export function buildCurveView(curve: Curve): CurveLineView[] {
  return curve.map(({ events, endNs }) => ({ events: Number(events), end_ns: endNs }));
}

/** Computes the duration with an extra latency. */
export function endWith(curve: Curve, latencyNs: bigint): bigint {
  return curve.reduce((latest, { events, endNs }) => {
    const ns = endNs + events * latencyNs;
    return ns > latest ? ns : latest;
  }, 0n);
}

/** The lines of a thread's own events. */
export interface ThreadLines {
  calls: CurveLine[];
  /**
   * Lines of requests: first the requests that get the latency, then the other requests. `events` ascends in each list.
   */
  requests: readonly [CurveLine[], CurveLine[]];
}

export function createThreadLines(): ThreadLines {
  return { calls: [], requests: [[], []] };
}

export function listThreadLines({ calls, requests }: ThreadLines): CurveLine[][] {
  return [calls, ...requests];
}

interface CurveThread {
  delay: ThreadDelay<bigint>;
  /** End of the call under way, if that call is an own event. */
  ownEndNs: bigint | null;
  lines: ThreadLines;
}

interface CurvedEvent {
  startNs: bigint;
  durationNs: bigint;
  isCall: boolean;
  /** Whether the event gets the latency. */
  isAffected: boolean;
  isOwn: boolean;
}

interface CurveSums {
  /** Adds an event; events of a thread must come in order. */
  add(node: string, tid: number, event: CurvedEvent): void;
  /** Returns the curve; null if no event was added. No event may be added afterwards. */
  finishCurve(): Curve | null;
}

/** `getClockShift` returns the shift that aligns a node's clock with the clocks of other nodes. */
function createCurveSums(getClockShift: (node: string) => bigint): CurveSums {
  const byNode = new Map<string, { shiftNs: bigint; lanes: Map<number, CurveThread> }>();
  let [hasEvents, hasOwn] = [false, false];
  /** Earliest start of an own event, by the aligned clocks. */
  let originNs: bigint | undefined;

  function findOrAddNode(node: string) {
    let known = byNode.get(node);
    if (!known) {
      known = { shiftNs: getClockShift(node), lanes: new Map() };
      byNode.set(node, known);
    }
    return known;
  }

  return {
    add(node, tid, { startNs, durationNs, isCall, isAffected, isOwn }) {
      hasEvents = true;
      hasOwn ||= isOwn;
      if (!hasOwn) return;
      const { shiftNs, lanes } = findOrAddNode(node);
      const alignedNs = startNs + shiftNs;
      if (isOwn && (originNs === undefined || alignedNs < originNs)) originNs = alignedNs;
      let lane = lanes.get(tid);
      if (!lane) {
        lane = { delay: createThreadDelay(), ownEndNs: null, lines: createThreadLines() };
        lanes.set(tid, lane);
      }
      const { delay, lines } = lane;
      if (goOn(delay, alignedNs, isCall)) addCall(lane);
      const endNs = alignedNs + durationNs;
      take(delay, endNs, isCall, isAffected ? 1 : 0);
      if (isCall) lane.ownEndNs = isOwn ? endNs : null;
      else if (isOwn) addRequest(lines, delay.added, isAffected, endNs);
    },
    finishCurve() {
      if (!hasEvents) return null;
      const lanes = [...byNode.values()].flatMap((node) => [...node.lanes.values()]);
      for (const lane of lanes) if (endCall(lane.delay)) addCall(lane);
      return mergeCurveLines(
        lanes.flatMap(({ lines }) => listThreadLines(lines)),
        originNs,
      );
    },
  };
}

function addCall({ delay, ownEndNs, lines }: CurveThread): void {
  if (ownEndNs !== null) addLine(lines.calls, { events: BigInt(delay.added), endNs: ownEndNs });
}

export function addRequest({ requests }: ThreadLines, added: number, isAffected: boolean, endNs: bigint): void {
  if (isAffected) addLine(requests[0], { events: BigInt(added + 1), endNs });
  else addLine(requests[1], { events: BigInt(added), endNs });
}
