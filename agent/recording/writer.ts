/**
 * Writes a node's recording. Events gather in memory; a flush appends them as a part, and parts become a sealed
 * segment when it is full or some seconds old:
 *
 *   append -> [open rows] --flush--> part, part, part --seal--> one segment
 *                         --flush of many rows---------seal-->
 */
import type { Block } from '../../bpf/schema/block.ts';
import { type EventType, eventById } from '../../bpf/schema/index.ts';
import type { LossCause } from '../../bpf/schema/losses.ts';
import type { FileKind } from '../../bpf/schema/owner.ts';
import { SEGMENT_ROWS_MAX } from './codec/encode_segment.ts';
import { columnIds, openForWriting } from './create.ts';
import { type ContextText, openDictionaries } from './dictionaries.ts';
import { toRecordingError, withRecordingErrors } from './errors.ts';
import { lockRecording } from './lock.ts';
import { copyRows, markWritten, newOpenRows, type OpenRows, rangeOf, reuse, unwrittenRange } from './open_rows.ts';
import { segmentWriter } from './segment_writer.ts';
import { type ClockStep, type Loss, sideNotes } from './side_notes.ts';
import { summaryWriter } from './transaction_summaries.ts';
import { extremes } from './words64.ts';

/** Parts older than this are merged at the next flush. */
export const SEAL_AFTER_NS = 5_000_000_000n;

/** A flush of so many rows is sealed at once: writing them as a part first would write them twice. */
export const SEAL_ROWS_MIN = 512;

/** Segments that wait in memory while the file can not be written; further events are counted as lost. */
export const WAITING_SEGMENTS_MAX = 16;

export interface WriterOptions {
  path: string;
  node: string;
  bootId: string;
  machineId: string;
  /** Wall clock, nanoseconds since the epoch. */
  nowNs: () => bigint;
}

export interface RecordingWriter {
  /** 0 for an empty text. */
  nameId(text: string): number;
  fileId(path: string, kind: FileKind): number;
  contextId(context: ContextText): number;
  /** Copies the rows. Never throws for a full disk: the next `flush` tells. */
  append(block: Block): void;
  /** Commits what was gathered. When it throws, everything is kept for the next try. */
  flush(): void;
  recordLoss(loss: Loss): void;
  recordClock(step: ClockStep): void;
  close(): void;
}

export function openWriter({ path, nowNs, ...origin }: WriterOptions): RecordingWriter {
  const lock = lockRecording(path);
  try {
    const database = openForWriting(path, { ...origin, createdNs: nowNs() });
    try {
      return withRecordingErrors(path, () => writerOf(database, path, nowNs, lock.close));
    } catch (error) {
      database.close();
      throw error;
    }
  } catch (error) {
    lock.close();
    throw error;
  }
}

function writerOf(
  database: ReturnType<typeof openForWriting>,
  path: string,
  nowNs: () => bigint,
  unlock: () => void,
): RecordingWriter {
  const segments = segmentWriter(database, columnIds(database));
  segments.sealLeftParts();
  const dictionaries = openDictionaries(database);
  const writeSummaries = summaryWriter(database, dictionaries.transactionKeyOf);
  const notes = sideNotes(database);

  /** Oldest first; events are appended to the last one. More than one only while writing fails. */
  const waiting: OpenRows[] = [newOpenRows(segments.nextNumber(), 0n)];
  let closed = false;

  const commit = database.transaction((rows: OpenRows, seal: boolean) => {
    const { block, writtenRows, firstNumber } = rows;
    dictionaries.writePending();
    notes.write();
    if (block.rowCount > writtenRows) writeSummaries(block, unwrittenRange(rows), firstNumber);
    if (seal) segments.writeSealed(rows);
    else if (block.rowCount > writtenRows) segments.writePart(rows);
  });

  function write(rows: OpenRows, seal: boolean): void {
    commit.immediate(rows, seal);
    dictionaries.committed();
    notes.committed();
    if (!seal) markWritten(rows);
    else if (waiting.length > 1) waiting.shift();
    else reuse(rows, rows.firstNumber + rows.block.rowCount);
  }

  function mustSeal(rows: OpenRows): boolean {
    const { rowCount } = rows.block;
    if (rowCount === SEGMENT_ROWS_MAX) return true;
    if (rows.writtenRows === 0) return rowCount >= SEAL_ROWS_MIN;
    const age = nowNs() - rows.openedNs;
    // The wall clock may step back.
    return age >= SEAL_AFTER_NS || age < 0n;
  }

  function flush(): void {
    while (waiting.length > 1) write(waiting[0]!, true);
    const rows = waiting[0]!;
    if (rows.block.rowCount > rows.writtenRows) write(rows, mustSeal(rows));
    else if (notes.pending()) write(rows, false);
  }

  /** The rows to append to, or nothing when too many wait. */
  function withSpace(): OpenRows | undefined {
    const last = waiting.at(-1)!;
    if (last.block.rowCount === 0) last.openedNs = nowNs();
    if (last.block.rowCount < SEGMENT_ROWS_MAX) return last;
    try {
      flush();
      return withSpace();
    } catch (error) {
      // The caller learns of it from its own flush; here it only must not lose the rest of the block.
      if ((toRecordingError(error, path) as { code?: unknown }).code === undefined) throw error;
      if (waiting.length >= WAITING_SEGMENTS_MAX) return undefined;
      waiting.push(newOpenRows(last.firstNumber + SEGMENT_ROWS_MAX, nowNs()));
      return waiting.at(-1);
    }
  }

  function drop(block: Block, from: number): void {
    const range = rangeOf(block, from, block.rowCount, new Uint32Array(block.typeCounts.length));
    const time = extremes(block.columns.get('timestamp_ns')! as BigUint64Array, from, block.rowCount);
    range.typeTo.forEach((count, type) => {
      const eventType = eventById(type)?.name ?? null;
      if (count > 0) notes.addLoss({ cause: 'store_failed', eventType, count, fromNs: time.min, toNs: time.max });
    });
  }

  return {
    nameId: dictionaries.nameId,
    fileId: dictionaries.fileId,
    contextId: dictionaries.contextId,
    append(block) {
      let typeFrom: Uint32Array = new Uint32Array(block.typeCounts.length);
      for (let from = 0; from < block.rowCount; ) {
        const rows = withSpace();
        if (!rows) return drop(block, from);
        const to = Math.min(block.rowCount, from + SEGMENT_ROWS_MAX - rows.block.rowCount);
        const range = rangeOf(block, from, to, typeFrom);
        copyRows(rows, block, range);
        typeFrom = range.typeTo;
        from = to;
        if (rows.block.rowCount === SEGMENT_ROWS_MAX) withSpace();
      }
    },
    flush: () => withRecordingErrors(path, flush),
    recordLoss: notes.addLoss,
    recordClock: notes.addClockStep,
    close() {
      if (closed) return;
      closed = true;
      try {
        withRecordingErrors(path, () => {
          flush();
          const rows = waiting[0]!;
          if (rows.block.rowCount > 0) write(rows, true);
          // So that a user who may not create the log's files can still read; fails while a reader has it open.
          database.pragma('busy_timeout = 0');
          tryLeaveWal(database);
        });
      } finally {
        database.close();
        unlock();
      }
    },
  };
}

function tryLeaveWal(database: ReturnType<typeof openForWriting>): void {
  try {
    database.pragma('journal_mode = DELETE');
  } catch (error) {
    if (!String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY')) throw error;
  }
}

export type { ClockStep, ContextText, EventType, Loss, LossCause };
