/**
 * The half of a writer that takes events: they gather in a fixed number of blocks until a commit has written them.
 *
 *   append -> [open block] --full, old or large--> [closed blocks] --committed--> free again
 *                  \--a flush writes its new rows as a part
 *
 * One batch is under way at a time, and events continue to gather meanwhile. When it fails, the next batch contains the
 * same and what came since.
 */
import type { Block } from '../../../bpf/schema/block.ts';
import { eventById } from '../../../bpf/schema/index.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import type { NextIds } from '../format/ids.ts';
import { extremes } from '../words64.ts';
import type { Batch, OpenedRecording, RowsToWrite, Unended } from './batch.ts';
import { createDictionaries, type Dictionaries } from './dictionaries.ts';
import { copyRows, newOpenRows, type OpenRows, rangeOf, reuse } from './open_rows.ts';
import { createPendingLosses, type PendingLosses } from './pending_losses.ts';

/** Parts older than this are merged at the next flush. */
export const SEAL_AFTER_NS = 5_000_000_000n;

/** A flush of at least this many rows is sealed at once: writing them as a part first would write them twice. */
export const SEAL_ROWS_MIN = 512;

/** How often a quiet recording commits that nothing happened: answers are complete up to then. */
const QUIET_BATCH_EVERY_NS = 1_000_000_000n;

export interface Gatherer
  extends Pick<Dictionaries, 'nameId' | 'fileId' | 'contextId' | 'oldestIds'>,
    Pick<PendingLosses, 'addLoss' | 'addClockStep'> {
  /** Copies the rows from `fromRow` on as far as there is room; returns the first that had none, or the block's end. */
  append(block: Block, fromRow: number): number;
  /** Counts the rows from `fromRow` on as lost because the file cannot be written. */
  drop(block: Block, fromRow: number): void;
  /** Number of rows for which there is room. */
  freeRows(): number;
  /** Sets what is in progress, as the next batch says. */
  setInProgress(unended: Unended): void;
  /** Returns everything that waits; undefined when nothing does. The caller must then call `committed` or `failed`. */
  take(options?: { sealAll?: boolean }): Batch | undefined;
  committed(): void;
  failed(): void;
}

interface Taken {
  batch: Batch;
  closedCount: number;
}

export function createGatherer(opened: OpenedRecording, blocks: readonly Block[], nowNs: () => bigint): Gatherer {
  const dictionaries = createDictionaries(opened);
  const notes = createPendingLosses();
  const free: OpenRows[] = blocks.map((block, slot) => newOpenRows(slot, block));
  /** Closed blocks, the oldest first. */
  let closed: OpenRows[] = [];
  let open: OpenRows | undefined;
  let nextNumber = opened.nextNumber;
  let taken: Taken | undefined;
  let hasFailed = false;
  let unended: Unended | undefined;
  let aliveNs = nowNs();

  /** Returns the block for the next row; undefined when all blocks wait. */
  function rowsWithRoom(): OpenRows | undefined {
    if (!open) {
      // The block that was used last is taken first, so that the memory of others may never be needed.
      open = free.pop();
      if (open) reuse(open, nextNumber);
    }
    return open;
  }

  function closeOpen(): void {
    if (!open) return;
    closed.push(open);
    open = undefined;
  }

  function mustSeal({ block, writtenRows, openedNs }: OpenRows): boolean {
    if (writtenRows === 0) return block.rowCount >= SEAL_ROWS_MIN;
    const age = nowNs() - openedNs;
    // The wall clock may step back.
    return age >= SEAL_AFTER_NS || age < 0n;
  }

  return {
    oldestIds: dictionaries.oldestIds,
    nameId: dictionaries.nameId,
    fileId: dictionaries.fileId,
    contextId: dictionaries.contextId,
    addLoss: notes.addLoss,
    addClockStep: notes.addClockStep,
    append(block, fromRow) {
      let typeFrom = rangeOf(block, 0, fromRow, new Uint32Array(block.typeCounts.length)).typeTo;
      let from = fromRow;
      while (from < block.rowCount) {
        const rows = rowsWithRoom();
        if (!rows) break;
        if (rows.block.rowCount === 0) {
          rows.openedNs = nowNs();
          rows.idsFrom = dictionaries.nextIds();
        }
        const to = Math.min(block.rowCount, from + SEGMENT_ROWS_MAX - rows.block.rowCount);
        const range = rangeOf(block, from, to, typeFrom);
        copyRows(rows, block, range);
        nextNumber += to - from;
        typeFrom = range.typeTo;
        from = to;
        if (rows.block.rowCount === SEGMENT_ROWS_MAX) closeOpen();
      }
      return from;
    },
    drop(block, fromRow) {
      const { typeTo: typeFrom } = rangeOf(block, 0, fromRow, new Uint32Array(block.typeCounts.length));
      const range = rangeOf(block, fromRow, block.rowCount, typeFrom);
      const time = extremes(block.columns.get('timestamp_ns')! as BigUint64Array, fromRow, block.rowCount);
      range.typeTo.forEach((end, type) => {
        const count = end - typeFrom[type]!;
        const eventType = eventById(type)?.name ?? null;
        if (count > 0) notes.addLoss({ cause: 'store_failed', eventType, count, fromNs: time.min, toNs: time.max });
      });
    },
    freeRows: () => free.length * SEGMENT_ROWS_MAX + (open ? SEGMENT_ROWS_MAX - open.block.rowCount : 0),
    setInProgress(what) {
      unended = what;
    },
    take({ sealAll = false } = {}) {
      // While the file cannot be written, room is scarce: only full blocks are closed.
      const mayClose = sealAll || (!hasFailed && open !== undefined && mustSeal(open));
      if (open && open.block.rowCount > 0 && mayClose) closeOpen();
      const idsEnd = dictionaries.nextIds();
      const rows = closed.map((one) => toWrite(one, true, idsEnd));
      if (open && open.block.rowCount > open.writtenRows) rows.push(toWrite(open, false, idsEnd));
      const now = nowNs();
      const idle = rows.length === 0 && !notes.pending() && !unended;
      if (idle && now - aliveNs < QUIET_BATCH_EVERY_NS && now >= aliveNs) return undefined;
      const batch = { rows, ...dictionaries.take(), ...notes.take(), unended, nowNs: now };
      taken = { batch, closedCount: closed.length };
      return batch;
    },
    committed() {
      if (!taken) return;
      const { batch, closedCount } = taken;
      taken = undefined;
      hasFailed = false;
      aliveNs = batch.nowNs;
      if (unended === batch.unended) unended = undefined;
      dictionaries.committed();
      notes.committed();
      free.push(...closed.slice(0, closedCount));
      closed = closed.slice(closedCount);
      const part = batch.rows.find(({ seal }) => !seal);
      const written = part && [open, ...closed].find((rows) => rows?.slot === part.slot);
      if (!part || !written) return;
      written.writtenRows = part.unwritten.to;
      written.writtenTypeRows.set(part.unwritten.typeTo);
    },
    failed() {
      taken = undefined;
      hasFailed = true;
      notes.failed();
    },
  };
}

function toWrite(rows: OpenRows, seal: boolean, idsEnd: NextIds): RowsToWrite {
  const { slot, firstNumber, block, idsFrom } = rows;
  const unwritten = {
    from: rows.writtenRows,
    to: block.rowCount,
    typeFrom: rows.writtenTypeRows.slice(),
    typeTo: block.typeCounts.slice(),
  };
  return { slot, firstNumber, idsFrom, idsEnd, unwritten, seal };
}
