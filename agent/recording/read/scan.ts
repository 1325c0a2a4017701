/**
 * Merges segments into blocks in the total order (timestamp, number). Segments overlap in time, because events are
 * stored as they end and ordered as they start: a row may be returned as soon as no unopened segment can begin before
 * it.
 *
 * A scan returns what was recorded when it began. Each block is made within one read transaction, and none is open
 * while the consumer holds a block: that would keep the writer from ever shortening its log.
 */

import { type ColumnMaker, type NumberedBlock, newColumns, reusedColumns } from '../../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { firstPlaceNear } from '../../../daemon/base/binary_search.ts';
import { gather } from './assemble_block.ts';
import type { ResolvedFilter } from './event_filter.ts';
import { matchingRows } from './match.ts';
import { leaveOut, readableBlock, type SegmentRun } from './readable_block.ts';
import { planScan, type ScanPlan } from './scan_plan.ts';
import { decodedSegments, type Segment } from './segment.ts';
import type { SegmentIndex, SegmentMeta } from './segment_index.ts';

/**
 * The most segments opened, or windows of segments passed, for one block; the block is then returned, even when it is
 * empty, so that the consumer can do other work.
 */
const OPENED_A_BLOCK_MAX = 32;

const TIMESTAMP = COLUMNS.find(({ name }) => name === 'timestamp_ns')!;

export interface EventKey {
  timestampNs: bigint;
  number: bigint;
}

export interface ScanSource {
  index: SegmentIndex;
  /** Ids of the file's columns by name. */
  columnIds(): ReadonlyMap<string, number>;
  /**
   * Returns undefined when retention has removed the segment, or when it is known to be damaged. `make` gives memory that
   * is used again for the next segment.
   */
  open(meta: SegmentMeta, make?: ColumnMaker): Segment | undefined;
  /** Called for a damaged segment that the scan leaves out. */
  onDamaged(meta: SegmentMeta): void;
  /** Called for every block in its read transaction: entries that its ids refer to may be gone afterwards. */
  onBlock(block: NumberedBlock): void;
  /** Runs `work` in a read transaction. */
  inTransaction<T>(work: () => T): T;
  /** A number that changes whenever another connection has committed. */
  dataVersion(): number;
}

export interface ScanOptions {
  filter: ResolvedFilter;
  order: 'asc' | 'desc';
  after: EventKey | undefined;
  limit: number;
  blockRowsMax: number;
  columns: readonly Column[];
  /** Whether each block takes the memory of the one before it. */
  reusesMemory: boolean;
}

/** An open segment: its matching rows in the scan's order, and how many of them were returned. */
interface Cursor {
  segment: Segment;
  rows: Uint32Array;
  timestamps: BigUint64Array;
  position: number;
}

/** Blocks may be empty: the consumer should then do its other work and continue. */
export function* scanBlocks(source: ScanSource, options: ScanOptions): Generator<NumberedBlock> {
  let merge: Merge | undefined;
  for (let left = options.limit; left > 0; ) {
    const block = source.inTransaction(() => {
      merge ??= new Merge(source, options);
      return merge.next(Math.min(left, options.blockRowsMax));
    });
    if (!block) return;
    left -= block.rowCount;
    yield block;
  }
}

class Merge {
  readonly #source: ScanSource;
  readonly #options: ScanOptions;
  readonly #plan: ScanPlan;
  readonly #decoded = decodedSegments();
  readonly #make: ColumnMaker;
  #cursors: Cursor[] = [];
  #last: EventKey | undefined;
  #opened = 0;
  #dataVersion: number;

  constructor(source: ScanSource, options: ScanOptions) {
    this.#source = source;
    this.#options = options;
    this.#make = options.reusesMemory ? reusedColumns() : newColumns;
    this.#last = options.after;
    this.#dataVersion = source.dataVersion();
    const { filter, order, after } = options;
    const [{ index }, columnIds] = [source, source.columnIds()];
    this.#plan = planScan({ index, columnIds, filter, order, startNs: after?.timestampNs });
  }

  next(rowsMax: number): NumberedBlock | undefined {
    this.#followWriter();
    const runs: SegmentRun[] = [];
    const openedMax = this.#opened + OPENED_A_BLOCK_MAX;
    let paused = false;
    for (let left = rowsMax; left > 0; ) {
      paused = !this.#openReachable(openedMax);
      if (paused) break;
      const cursor = this.#nearest(undefined);
      if (!cursor) break;
      const count = Math.min(left, this.#countBeforeOthers(cursor));
      const rows = cursor.rows.subarray(cursor.position, cursor.position + count);
      runs.push({ segment: cursor.segment, rows });
      cursor.position += count;
      left -= count;
      this.#last = keyAt(cursor, cursor.position - 1);
      if (cursor.position === cursor.rows.length) this.#cursors = this.#cursors.filter((other) => other !== cursor);
    }
    if (runs.length === 0 && !paused) return undefined;
    return readableBlock(runs, {
      gather: (some) => gather(some, this.#options.columns, this.#decoded.use, this.#make),
      onBlock: this.#source.onBlock,
      leaveOut: (error) => this.#leaveOut(error),
    });
  }

  /** Leaves out the segment that the error is about; rethrows an error that is not about a single segment. */
  #leaveOut(error: unknown): SegmentMeta {
    const meta = leaveOut(error, this.#source.onDamaged);
    this.#cursors = this.#cursors.filter(({ segment }) => segment.firstNumber !== meta.firstNumber);
    return meta;
  }

  /** Lists the parts again, which may have been merged since the last block. */
  #followWriter(): void {
    const dataVersion = this.#source.dataVersion();
    if (dataVersion === this.#dataVersion) return;
    this.#dataVersion = dataVersion;
    const changedFrom = this.#plan.refresh() ?? Number.POSITIVE_INFINITY;
    // Retention may have removed others, and with them the names that their rows refer to.
    this.#cursors = this.#cursors.filter(
      ({ segment: { firstNumber } }) => firstNumber < changedFrom && this.#source.index.exists(firstNumber),
    );
  }

  /**
   * Opens segments until the nearest row comes before everything in those that are not open; returns false when that
   * would open more than `openedMax`.
   */
  #openReachable(openedMax: number): boolean {
    for (let next = this.#plan.peek(); next; next = this.#plan.peek()) {
      const nearest = this.#nearest(undefined);
      if (nearest && this.#isBefore(keyAt(nearest, nearest.position), this.#edge(next))) return true;
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
    const rows = matchingRows(segment, this.#options.filter, this.#plan.end);
    const timestamps = sortRows(segment, rows, this.#options.order === 'desc');
    const cursor = { segment, rows, timestamps, position: 0 };
    if (this.#last) cursor.position = this.#countUntil(cursor, this.#last);
    if (cursor.position < rows.length) this.#cursors.push(cursor);
  }

  #nearest(except: Cursor | undefined): Cursor | undefined {
    let nearest: Cursor | undefined;
    for (const cursor of this.#cursors) {
      if (cursor === except) continue;
      if (!nearest || this.#isBefore(keyAt(cursor, cursor.position), keyAt(nearest, nearest.position)))
        nearest = cursor;
    }
    return nearest;
  }

  /** Counts the rows of the nearest cursor that come before those of all other segments, open or not. */
  #countBeforeOthers(cursor: Cursor): number {
    const other = this.#nearest(cursor);
    const unopened = this.#plan.peek();
    let stop = other && keyAt(other, other.position);
    const edge = unopened && this.#edge(unopened);
    if (edge && (!stop || this.#isBefore(edge, stop))) stop = edge;
    if (!stop) return cursor.rows.length - cursor.position;
    return this.#countUntil(cursor, stop);
  }

  /**
   * Counts the rows from the cursor's position on that do not come after `key`: with doubling steps, then a binary
   * search.
   */
  #countUntil(cursor: Cursor, key: EventKey): number {
    const length = cursor.rows.length;
    const isAfter = (at: number) => this.#isBefore(key, keyAt(cursor, at));
    return firstPlaceNear(cursor.position, length, isAfter) - cursor.position;
  }

  /** Returns a key before every event of the segment, in the scan's order. */
  #edge({ minNs, maxNs }: SegmentMeta): EventKey {
    return this.#options.order === 'asc'
      ? { timestampNs: minNs, number: -1n }
      : { timestampNs: maxNs, number: 2n ** 64n };
  }

  #isBefore(a: EventKey, b: EventKey): boolean {
    const [first, second] = this.#options.order === 'asc' ? [a, b] : [b, a];
    if (first.timestampNs !== second.timestampNs) return first.timestampNs < second.timestampNs;
    return first.number < second.number;
  }
}

function keyAt({ segment, rows, timestamps }: Cursor, at: number): EventKey {
  return { timestampNs: timestamps[at]!, number: BigInt(segment.numberAt(rows[at]!)) };
}

/** Sorts `rows` by (timestamp, number) in place; returns their timestamps in the same order. */
function sortRows(segment: Segment, rows: Uint32Array, descending: boolean): BigUint64Array {
  const sorted = new BigUint64Array(rows.length);
  if (rows.length > 0) {
    nativeColumns.sortRows(segment.column(TIMESTAMP) as BigUint64Array, rows, descending, sorted);
  }
  return sorted;
}
