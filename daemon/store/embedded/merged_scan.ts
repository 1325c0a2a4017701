/**
 * Merges scans of several recordings into one, in the total order. A block has one dictionary, so each block of the
 * result contains rows of one recording, up to the next row of another recording:
 *
 *   a   1 2 3 . . . 7 8          a 1 2 3 | b 4 5 6 | a 7 8 | b 9
 *   b   . . . 4 5 6 . . 9
 *
 * Files that contain the same recording, whole or in part, may contain the same event. The event is returned once.
 */
import { findFirstPlaceNear } from '../../base/binary_search.ts';
import { createRowCutter, getBigColumn, type RecordingBlock, type RowCutter } from '../blocks/scanned_block.ts';
import type { ScanRequest } from '../store.ts';

export interface RecordingScan {
  recordingId: string;
  /** The blocks are in order and contain no event twice. */
  blocks: Iterator<RecordingBlock, void>;
}

/** The current block of a scan. The rows from `position` on have not been merged yet. */
interface ScanCursor {
  readonly scan: RecordingScan;
  readonly scanned: RecordingBlock;
  readonly cut: RowCutter;
  readonly timestamps: ReturnType<typeof getBigColumn>;
  readonly numbers: BigUint64Array;
  readonly length: number;
  position: number;
}

/** Whether a row of one cursor precedes a row of the other. */
type Before = (a: ScanCursor, rowOfA: number, b: ScanCursor, rowOfB: number) => boolean;

/** Merges the scans. Keeps one block of each scan in memory. */
export function* mergeScans(
  scans: readonly RecordingScan[],
  { order, limit = Number.POSITIVE_INFINITY }: Pick<ScanRequest, 'order' | 'limit'>,
): Generator<RecordingBlock, void> {
  const isBefore: Before = order === 'asc' ? isEarlier : (a, rowOfA, b, rowOfB) => isEarlier(b, rowOfB, a, rowOfA);
  let cursors: ScanCursor[] = [];
  let waiting = scans;
  for (let left = limit; left > 0; ) {
    for (const scan of waiting) {
      const cursor = yield* readNextBlock(scan);
      if (!cursor) continue;
      cursors.push(cursor);
      // Yields an empty block, so that other work can run before the next block is read, which takes milliseconds.
      if (scan !== waiting.at(-1)) yield { block: cursor.cut(0, 0), dictionary: cursor.scanned.dictionary };
    }
    if (cursors.length === 0) return;
    const nearest = cursors.reduce((a, b) => (isBefore(b, b.position, a, a.position) ? b : a));
    const start = nearest.position;
    nearest.position = Math.min(findRunEnd(nearest, cursors, isBefore), start + left);
    left -= nearest.position - start;
    waiting = cursors.filter(isSpent).map(({ scan }) => scan);
    yield {
      block: nearest.cut(start, nearest.position),
      dictionary: nearest.scanned.dictionary,
      nextAtHand: waiting.length === 0 && left > 0,
    };
    if (waiting.length > 0) cursors = cursors.filter((cursor) => !isSpent(cursor));
  }
}

/**
 * Returns a cursor for the next block with rows; undefined after the last block. Yields empty blocks, which are pauses
 * for other work.
 */
function* readNextBlock(scan: RecordingScan): Generator<RecordingBlock, ScanCursor | undefined> {
  for (;;) {
    const { done, value: scanned } = scan.blocks.next();
    if (done) return undefined;
    const { block } = scanned;
    if (block.rowCount === 0) {
      yield scanned;
      continue;
    }
    const timestamps = getBigColumn(block, 'timestamp_ns');
    const { numbers, rowCount: length } = block;
    return { scan, scanned, cut: createRowCutter(block), timestamps, numbers, length, position: 0 };
  }
}

function isSpent({ position, length }: ScanCursor): boolean {
  return position === length;
}

function isEarlier(a: ScanCursor, rowOfA: number, b: ScanCursor, rowOfB: number): boolean {
  const timeOfA = a.timestamps[rowOfA]!;
  const timeOfB = b.timestamps[rowOfB]!;
  if (timeOfA !== timeOfB) return timeOfA < timeOfB;
  if (a.scan.recordingId !== b.scan.recordingId) return a.scan.recordingId < b.scan.recordingId;
  return a.numbers[rowOfA]! < b.numbers[rowOfB]!;
}

/** Returns the end of the run: the first row that comes after a row of another scan. */
function findRunEnd(nearest: ScanCursor, cursors: readonly ScanCursor[], isBefore: Before): number {
  let end = nearest.length;
  for (const other of cursors) {
    if (other === nearest) continue;
    const isCopy = other.scan.recordingId === nearest.scan.recordingId;
    end = isCopy ? passShared(nearest, other, end, isBefore) : endBefore(nearest, other, end, isBefore);
  }
  return end;
}

function endBefore(nearest: ScanCursor, other: ScanCursor, endMax: number, isBefore: Before): number {
  return findFirstPlaceNear(nearest.position + 1, endMax, (row) => !isBefore(nearest, row, other, other.position));
}

/**
 * Skips rows of a copy that `nearest` also has. The run ends before a row that only the copy has. The run also ends at
 * the end of the copy's block, because the copy's next row is not known yet. Skipping a row too early does no harm,
 * because `nearest` has the same row.
 */
function passShared(nearest: ScanCursor, copy: ScanCursor, endMax: number, isBefore: Before): number {
  for (let row = nearest.position; row < endMax; row++) {
    if (isBefore(copy, copy.position, nearest, row)) return row;
    if (isBefore(nearest, row, copy, copy.position)) continue;
    copy.position++;
    if (isSpent(copy)) return row + 1;
  }
  return endMax;
}
