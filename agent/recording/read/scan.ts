/**
 * Merges segments into blocks in the total order (timestamp, number). Segments overlap in time: events are stored in
 * the order of their ends, but sorted by their starts. A row may be returned as soon as no unopened segment can have an
 * earlier row.
 *
 * A scan returns the events that were recorded when the scan began. Each block is made within one read transaction,
 * which ends before the consumer gets the block. A transaction that stays open would prevent the writer from resetting
 * its log.
 */
import { type ColumnMaker, createColumn, createColumnReuser, type NumberedBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { findFirstPlaceNear } from '../../../daemon/base/binary_search.ts';
import { toStored } from '../format/schema.ts';
import { buildWholeBlock, gather, type RowRun } from './assemble_block.ts';
import type { ResolvedFilter } from './event_filter.ts';
import { createSegmentMatcher, findMatchingRows } from './match.ts';
import { createDecodedSegments, runWithSegmentErrors, type Segment, UnreadableSegment } from './segment.ts';
import type { SegmentBounds, SegmentIndex, SegmentMeta } from './segment_index.ts';

/**
 * Maximum work for one block: number of opened segments plus number of windows without a match. At this limit, the
 * block is returned even if it is empty, so that the consumer can do other work.
 */
const OPENED_A_BLOCK_MAX = 32;

const TIMESTAMP = COLUMNS.find(({ name }) => name === 'timestamp_ns')!;

export interface RecordingKey {
  timestampNs: bigint;
  number: bigint;
}

export interface ScanSource {
  index: SegmentIndex;
  /** Ids of the file's columns by name. */
  columnIds(): ReadonlyMap<string, number>;
  /**
   * Opens a segment. Returns undefined if retention has removed the segment, or if it is known to be damaged. `make`
   * allocates memory that is reused for the next segment.
   */
  open(meta: SegmentMeta, make?: ColumnMaker): Segment | undefined;
  /** Called for a damaged segment that the scan skips. */
  onDamaged(meta: SegmentMeta): void;
  /**
   * Called in the read transaction of each block, because retention may later remove the dictionary entries that the
   * block refers to.
   */
  onBlock(block: NumberedBlock): void;
  /** Runs `work` in a read transaction. */
  runInTransaction<T>(work: () => T): T;
  /** Returns a number that changes whenever another connection has committed. */
  dataVersion(): number;
}

export interface ScanOptions {
  filter: ResolvedFilter;
  order: 'asc' | 'desc';
  after: RecordingKey | undefined;
  limit: number;
  blockRowsMax: number;
  columns: readonly Column[];
  /** Whether each block reuses the memory of the previous block. */
  reusesMemory: boolean;
}

/** An open segment: its matching rows in the scan's order, and the number of rows that the scan has returned. */
interface SegmentCursor {
  segment: Segment;
  rows: Uint32Array;
  timestamps: BigUint64Array;
  position: number;
}

/** Scans events in order. Blocks may be empty, so that the consumer can do other work before it continues. */
export function* scanBlocks(source: ScanSource, options: ScanOptions): Generator<NumberedBlock> {
  let merge: SegmentMerge | undefined;
  for (let left = options.limit; left > 0; ) {
    const block = source.runInTransaction(() => {
      merge ??= new SegmentMerge(source, options);
      return merge.readNextBlock(Math.min(left, options.blockRowsMax));
    });
    if (!block) return;
    left -= block.rowCount;
    yield block;
  }
}

class SegmentMerge {
  readonly #source: ScanSource;
  readonly #options: ScanOptions;
  readonly #plan: ScanPlan;
  readonly #decoded = createDecodedSegments();
  readonly #make: ColumnMaker;
  #cursors: SegmentCursor[] = [];
  #last: RecordingKey | undefined;
  #opened = 0;
  #dataVersion: number;

  constructor(source: ScanSource, options: ScanOptions) {
    this.#source = source;
    this.#options = options;
    this.#make = options.reusesMemory ? createColumnReuser() : createColumn;
    this.#last = options.after;
    this.#dataVersion = source.dataVersion();
    const { filter, order, after } = options;
    const [{ index }, columnIds] = [source, source.columnIds()];
    this.#plan = planScan({ index, columnIds, filter, order, startNs: after?.timestampNs });
  }

  readNextBlock(rowsMax: number): NumberedBlock | undefined {
    this.#followWriter();
    const runs: SegmentRun[] = [];
    const openedMax = this.#opened + OPENED_A_BLOCK_MAX;
    let paused = false;
    for (let left = rowsMax; left > 0; ) {
      paused = !this.#openReachable(openedMax);
      if (paused) break;
      const cursor = this.#findNearest(undefined);
      if (!cursor) break;
      const count = Math.min(left, this.#countBeforeOthers(cursor));
      const rows = cursor.rows.subarray(cursor.position, cursor.position + count);
      runs.push({ segment: cursor.segment, rows });
      cursor.position += count;
      left -= count;
      this.#last = getEventKey(cursor, cursor.position - 1);
      if (cursor.position === cursor.rows.length) this.#cursors = this.#cursors.filter((other) => other !== cursor);
    }
    if (runs.length === 0 && !paused) return undefined;
    return buildReadableBlock(runs, {
      gather: (some) => gather(some, this.#options.columns, this.#decoded.use, this.#make),
      onBlock: this.#source.onBlock,
      leaveOut: (error) => this.#leaveOut(error),
    });
  }

  /** Drops the segment that the error is about; rethrows an error that is not about a single segment. */
  #leaveOut(error: unknown): SegmentMeta {
    const meta = leaveOut(error, this.#source.onDamaged);
    this.#cursors = this.#cursors.filter(({ segment }) => segment.firstNumber !== meta.firstNumber);
    return meta;
  }

  /**
   * Lists the unsealed parts again if a writer has committed since the last block. The writer may have merged parts
   * into a segment.
   */
  #followWriter(): void {
    const dataVersion = this.#source.dataVersion();
    if (dataVersion === this.#dataVersion) return;
    this.#dataVersion = dataVersion;
    const changedFrom = this.#plan.refresh() ?? Number.POSITIVE_INFINITY;
    // Retention may have removed a segment, and the dictionary entries that its rows refer to.
    this.#cursors = this.#cursors.filter(
      ({ segment: { firstNumber } }) => firstNumber < changedFrom && this.#source.index.exists(firstNumber),
    );
  }

  /**
   * Opens segments until the nearest row precedes all rows of the unopened segments. Returns false if the number of
   * opened segments reaches `openedMax` first.
   */
  #openReachable(openedMax: number): boolean {
    for (let next = this.#plan.peek(); next; next = this.#plan.peek()) {
      const nearest = this.#findNearest(undefined);
      if (nearest && this.#isBefore(getEventKey(nearest, nearest.position), this.#toEdgeKey(next))) return true;
      if (this.#opened === openedMax) return false;
      this.#opened++;
      this.#plan.take();
      if (next.isPassed) continue;
      try {
        this.#open(next);
      } catch (error) {
        this.#leaveOut(error);
      }
    }
    return true;
  }

  #open(meta: SegmentMeta): void {
    const segment = this.#source.open(meta);
    if (!segment) return;
    this.#decoded.use(segment);
    const rows = findMatchingRows(segment, this.#options.filter, this.#plan.end);
    const timestamps = sortRows(segment, rows, this.#options.order === 'desc');
    const cursor = { segment, rows, timestamps, position: 0 };
    if (this.#last) cursor.position = this.#countUntil(cursor, this.#last);
    if (cursor.position < rows.length) this.#cursors.push(cursor);
  }

  #findNearest(except: SegmentCursor | undefined): SegmentCursor | undefined {
    let nearest: SegmentCursor | undefined;
    for (const cursor of this.#cursors) {
      if (cursor === except) continue;
      if (!nearest || this.#isBefore(getEventKey(cursor, cursor.position), getEventKey(nearest, nearest.position)))
        nearest = cursor;
    }
    return nearest;
  }

  /** Returns how many rows of the nearest cursor precede the rows of all other segments, opened or not. */
  #countBeforeOthers(cursor: SegmentCursor): number {
    const other = this.#findNearest(cursor);
    const unopened = this.#plan.peek();
    let stop = other && getEventKey(other, other.position);
    const edge = unopened && this.#toEdgeKey(unopened);
    if (edge && (!stop || this.#isBefore(edge, stop))) stop = edge;
    if (!stop) return cursor.rows.length - cursor.position;
    return this.#countUntil(cursor, stop);
  }

  /**
   * Returns the number of rows from the cursor's position up to and including `key`. The search uses doubling steps,
   * then a binary search.
   */
  #countUntil(cursor: SegmentCursor, key: RecordingKey): number {
    const length = cursor.rows.length;
    const isAfter = (at: number) => this.#isBefore(key, getEventKey(cursor, at));
    return findFirstPlaceNear(cursor.position, length, isAfter) - cursor.position;
  }

  /** Returns a key that precedes every event of the segment in the scan's order. */
  #toEdgeKey({ minNs, maxNs }: SegmentMeta): RecordingKey {
    return this.#options.order === 'asc'
      ? { timestampNs: minNs, number: -1n }
      : { timestampNs: maxNs, number: 2n ** 64n };
  }

  #isBefore(a: RecordingKey, b: RecordingKey): boolean {
    const [first, second] = this.#options.order === 'asc' ? [a, b] : [b, a];
    if (first.timestampNs !== second.timestampNs) return first.timestampNs < second.timestampNs;
    return first.number < second.number;
  }
}

function getEventKey({ segment, rows, timestamps }: SegmentCursor, at: number): RecordingKey {
  return { timestampNs: timestamps[at]!, number: BigInt(segment.readEventNumber(rows[at]!)) };
}

/** Sorts `rows` by (timestamp, number) in place; returns their timestamps in the same order. */
function sortRows(segment: Segment, rows: Uint32Array, descending: boolean): BigUint64Array {
  const sorted = new BigUint64Array(rows.length);
  if (rows.length > 0) {
    nativeColumns.sortRows(segment.readColumn(TIMESTAMP) as BigUint64Array, rows, descending, sorted);
  }
  return sorted;
}

/*
 * Builds a block of the readable rows, and reads the dictionary entries that the block refers to. Unreadable
 * segments are skipped.
 */

export interface SegmentRun extends RowRun {
  segment: Segment;
}

interface BlockSteps {
  gather(runs: readonly SegmentRun[]): NumberedBlock;
  /** Reads the dictionary entries that the block refers to. */
  onBlock(block: NumberedBlock): void;
  /** Returns the segment to skip; rethrows an error that is not about a single segment. */
  leaveOut(error: unknown): SegmentMeta;
}

export function buildReadableBlock(runs: readonly SegmentRun[], steps: BlockSteps): NumberedBlock {
  try {
    const block = steps.gather(runs);
    steps.onBlock(block);
    return block;
  } catch (error) {
    const { firstNumber } = steps.leaveOut(
      error instanceof UnreadableSegment ? error : findUnreadable(runs, steps, error),
    );
    return buildReadableBlock(
      runs.filter(({ segment }) => segment.firstNumber !== firstNumber),
      steps,
    );
  }
}

/**
 * Reports the damaged segment that the error is about, and returns it; rethrows an error that is not about a single
 * segment.
 */
export function leaveOut(error: unknown, onDamaged: (meta: SegmentMeta) => void): SegmentMeta {
  if (!(error instanceof UnreadableSegment)) throw error;
  if (error.damage) onDamaged(error.meta);
  return error.meta;
}

/** Returns the error of the first segment that fails when read alone, or `error` if no segment fails. */
function findUnreadable(runs: readonly SegmentRun[], { gather, onBlock }: BlockSteps, error: unknown): unknown {
  for (const run of runs) {
    try {
      runWithSegmentErrors(run.segment.meta, () => onBlock(gather([run])));
    } catch (found) {
      return found;
    }
  }
  return error;
}

/*
 * Scans segments one after another, without merging. Sums need no order, and merging costs more than reading.
 *
 * Sealed segments never change, so each block of sealed segments has its own read transaction. All parts are read in
 * one transaction, because a writer may merge parts into segments between two transactions.
 */

/** Maximum number of segments in one block. */
const SEGMENTS_A_STEP = 16;
/** Number of windows without a match after which an empty block lets the consumer do other work. */
const PASSED_A_STEP = 32;
/**
 * Number of rows that complete a block, if `SEGMENTS_A_STEP` does not. A transaction and a block for each segment would
 * cost more.
 */
const ROWS_ENOUGH = 1024;

interface UnorderedOptions extends Pick<ScanOptions, 'filter' | 'columns' | 'reusesMemory'> {
  /** Minimum duration, which may rise during the scan; shorter events are skipped. */
  risingMinNs?: (() => bigint) | undefined;
}

/** Scans events in no order. Blocks may be empty, so that the consumer can do other work before it continues. */
export function* scanUnordered(source: ScanSource, options: UnorderedOptions): Generator<NumberedBlock> {
  const { columns, reusesMemory, risingMinNs = () => 0n } = options;
  let { filter } = options;
  const make = reusesMemory ? createColumnReuser() : createColumn;
  const plan = source.runInTransaction(() =>
    planUnordered({ index: source.index, columnIds: source.columnIds(), filter }),
  );

  const leave = (error: unknown) => leaveOut(error, source.onDamaged);

  function readMatchingRun(meta: SegmentMeta): SegmentRun | undefined {
    const minNs = risingMinNs();
    if (minNs > filter.minDurationNs) filter = { ...filter, minDurationNs: minNs };
    if (meta.maxDurationNs < filter.minDurationNs) return undefined;
    try {
      const segment = source.open(meta);
      const rows = segment && findMatchingRows(segment, filter, plan.end);
      return segment && rows && rows.length > 0 ? { segment, rows } : undefined;
    } catch (error) {
      leave(error);
      return undefined;
    }
  }

  function collectBlock(runs: readonly SegmentRun[], makeColumn: ColumnMaker): NumberedBlock {
    return buildReadableBlock(runs, {
      gather: ([run, ...others]) =>
        run && others.length === 0 && run.rows.length === run.segment.rowCount
          ? buildWholeBlock(run.segment, columns, makeColumn)
          : gather(run ? [run, ...others] : [], columns, () => {}, makeColumn),
      onBlock: source.onBlock,
      leaveOut: leave,
    });
  }

  /** Removes segments from the front of the list until their rows suffice for a block. The list must not be empty. */
  function collectNextBlock(segments: SegmentMeta[]): NumberedBlock {
    const runs: SegmentRun[] = [];
    for (let [opened, rows] = [0, 0]; rows < ROWS_ENOUGH && opened < SEGMENTS_A_STEP; opened++) {
      const meta = segments.shift();
      if (!meta) break;
      const run = readMatchingRun(meta);
      if (!run) continue;
      runs.push(run);
      rows += run.rows.length;
    }
    return collectBlock(runs, make);
  }

  for (let passed = 0; ; ) {
    const segments = source.runInTransaction(plan.readNextSealed);
    if (!segments) break;
    if (segments.length === 0 && ++passed % PASSED_A_STEP === 0) yield gather([], columns, () => {});
    while (segments.length > 0) yield source.runInTransaction(() => collectNextBlock(segments));
  }
  const parts = source.runInTransaction(() =>
    plan.tail().flatMap((meta) => {
      const run = readMatchingRun(meta);
      return run ? [collectBlock([run], createColumn)] : [];
    }),
  );
  yield* parts;
}

/*
 * The segments that a scan has not opened yet, nearest first, while a writer continues to write. Events with numbers
 * below `sealedEnd` are in sealed segments. Events from `sealedEnd` to `end` were in parts when the scan began. Later
 * events are not in this scan.
 *
 * Sealed segments never change and can only be removed, so they are read in windows. A writer may merge the few parts
 * at any time into a segment that begins with the same number, so they are listed again when the file has changed.
 */

interface PlannedSegment extends SegmentMeta {
  /**
   * Set on an entry that represents a whole window of segments without a match. The scan counts the entry but does not
   * open it. A file may have a million such segments, and the count lets the consumer do other work meanwhile.
   */
  isPassed?: true;
}

interface ScanPlan {
  /** The scan returns only events with numbers below this one. */
  readonly end: number;
  /** Returns the nearest segment that was not taken yet. */
  peek(): PlannedSegment | undefined;
  take(): void;
  /**
   * Lists the parts again. Returns undefined if no part of this scan can have changed. Otherwise returns a number, and
   * the caller must drop its open segments with this or a larger number: the plan returns them again, possibly merged.
   */
  refresh(): number | undefined;
}

interface ScanPlanOptions {
  index: SegmentIndex;
  /** Ids of the file's columns by name. */
  columnIds: ReadonlyMap<string, number>;
  filter: ResolvedFilter;
  order: 'asc' | 'desc';
  /** Events that precede this time in the scan's order are not wanted. */
  startNs: bigint | undefined;
}

function planScan({ index, columnIds, filter, order, startNs }: ScanPlanOptions): ScanPlan {
  const ascending = order === 'asc';
  const { end, sealedEnd } = index.ends();
  let tailStart = sealedEnd;
  const bounds = computeBounds(filter, ascending, startNs);
  const compareNearest = (a: SegmentMeta, b: SegmentMeta) => {
    const [first, second] = ascending ? [a, b] : [b, a];
    const [firstNs, secondNs] = ascending ? [first.minNs, second.minNs] : [first.maxNs, second.maxNs];
    return firstNs < secondNs ? -1 : firstNs > secondNs ? 1 : first.firstNumber - second.firstNumber;
  };
  const ofInterest = createSegmentMatcher(filter, columnIds);
  const nextSealed = createSealedSource({ index, filter, order, bounds, sealedEnd });
  // Both lists have the nearest segment last, because removing the last element is cheap.
  const selectFurthestFirst = (segments: SegmentMeta[]) =>
    segments.filter(ofInterest).sort((a, b) => compareNearest(b, a));
  let sealed: PlannedSegment[] = [];
  let sealedLeft = true;
  let tail = selectFurthestFirst(index.tail(tailStart, end, bounds));

  function chooseNearestList(): PlannedSegment[] {
    while (sealed.length === 0 && sealedLeft) {
      const next = nextSealed();
      sealedLeft = next !== undefined;
      sealed = selectFurthestFirst(next ?? []);
      const furthest = next?.at(-1);
      if (sealed.length === 0 && furthest) sealed = [{ ...furthest, isPassed: true }];
    }
    const a = sealed.at(-1);
    const b = tail.at(-1);
    return !b || (a && compareNearest(a, b) < 0) ? sealed : tail;
  }

  return {
    end,
    peek: () => chooseNearestList().at(-1),
    take: () => void chooseNearestList().pop(),
    refresh() {
      if (tailStart >= end) return undefined;
      const from = tailStart;
      tailStart = Math.max(from, Math.min(index.ends().sealedEnd, end));
      tail = selectFurthestFirst([
        ...tail.filter((segment) => segment.firstNumber < from),
        ...index.tail(from, end, bounds),
      ]);
      return from;
    },
  };
}

interface UnorderedPlan {
  /** The scan returns only events with numbers below this one. */
  readonly end: number;
  /** Returns the next window of sealed segments; undefined at the end. */
  readNextSealed(): SegmentMeta[] | undefined;
  /** Returns the segments that were not sealed when the scan began, as the transaction of this call reads them. */
  tail(): SegmentMeta[];
}

export function planUnordered({ index, columnIds, filter }: Omit<ScanPlanOptions, 'order' | 'startNs'>): UnorderedPlan {
  const { end, sealedEnd } = index.ends();
  const bounds = computeBounds(filter, true, undefined);
  const next = createSealedSource({ index, filter, order: 'asc', bounds, sealedEnd });
  const ofInterest = createSegmentMatcher(filter, columnIds);
  return {
    end,
    readNextSealed: () => next()?.filter(ofInterest),
    tail: () => index.tail(sealedEnd, end, bounds).filter(ofInterest),
  };
}

function computeBounds(filter: ResolvedFilter, ascending: boolean, startNs: bigint | undefined): SegmentBounds {
  let { firstNs, lastNs } = filter;
  if (startNs !== undefined && ascending && startNs > firstNs) firstNs = startNs;
  if (startNs !== undefined && !ascending && startNs < lastNs) lastNs = startNs;
  return {
    firstNs: toStored(firstNs),
    lastNs: toStored(lastNs),
    typeMask: filter.typeMask,
    minDurationNs: toStored(filter.minDurationNs),
  };
}

interface SealedOptions extends Omit<ScanPlanOptions, 'columnIds' | 'startNs'> {
  bounds: SegmentBounds;
  sealedEnd: number;
}

/** Returns a function that returns the next window of sealed segments; undefined at the end. */
function createSealedSource({
  index,
  filter,
  order,
  bounds,
  sealedEnd,
}: SealedOptions): () => SegmentMeta[] | undefined {
  const { inSegments: contexts } = filter;
  if (contexts) {
    let given = false;
    return () => {
      if (given) return undefined;
      given = true;
      return index.listSealedWithContexts(contexts, sealedEnd, bounds);
    };
  }
  // A segment that overlaps the wanted time begins before it (or ends after it) by at most the longest segment's span.
  const spanNs = index.longestSpanNs();
  let key: [bigint, number] =
    order === 'asc' ? [bounds.firstNs - spanNs - 1n, 0] : [toStored(bounds.lastNs + spanNs), Number.MAX_SAFE_INTEGER];
  return () => {
    const segments = index.listSealedAfter(order, key, sealedEnd, bounds);
    const last = segments.at(-1);
    if (!last) return undefined;
    key = [toStored(order === 'asc' ? last.minNs : last.maxNs), last.firstNumber];
    return segments;
  };
}
