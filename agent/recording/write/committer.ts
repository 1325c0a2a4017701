/** The half of a writer that owns the database: it writes each batch in one transaction. */

import { closeSync, openSync, readSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { Block } from '../../../bpf/schema/block.ts';
import type { BlockRange } from '../codec/encode_segment.ts';
import { RecordingError, runWithRecordingErrors } from '../format/errors.ts';
import { openLog, type RecordingLog } from '../format/recording_log.ts';
import { openRetention, type RetentionLimits, type RetentionState } from '../retain/retention.ts';
import type { Batch, OpenedRecording } from './batch.ts';
import { openForWriting, readColumnPlaces } from './create.ts';
import { createHeartbeat, recordCleanEnd, recordGap } from './gaps.ts';
import { createInProgressWriter, endInProgress } from './in_progress.ts';
import { lockRecording } from './lock.ts';
import { createLossWriter } from './loss_tables.ts';
import { findOpenFilePath, makeOwnFile, ownFiles, readFileIdentity } from './own_files.ts';
import { createSegmentWriter } from './segment_writer.ts';
import { openStoredDictionaries } from './stored_dictionaries.ts';
import { createSummaryWriter } from './transaction_summaries.ts';

const HELD = `
SELECT (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'created_ns'), coalesce(sum(event_count), 0)
FROM segment`;

const RECORDING_ID = "SELECT value FROM meta WHERE key = 'recording_id'";

export interface CommitterOptions {
  path: string;
  /** The id of a new recording, which is random by default. */
  recordingId?: string;
  node: string;
  bootId: string;
  machineId: string;
  /** Wall clock at the start, in nanoseconds since the epoch. */
  startNs: bigint;
  /**
   * CLOCK_MONOTONIC at the start or shortly before it. The caller measures it, because a thread may take seconds to
   * open the recording.
   */
  startMonotonicNs: bigint;
  /** Limits of the recording; if undefined, all events are kept. */
  retention?: RetentionLimits;
}

export interface Committer {
  readonly opened: OpenedRecording;
  readonly log: RecordingLog;
  /** Returns whether another recording was copied over the file. A commit would then damage that recording. */
  isOverwritten(): boolean;
  /** Writes the whole batch in one transaction. If it throws, nothing was written. */
  commit(batch: Batch): void;
  /** Removes a few segments that exceed the age limit or the size limit. */
  retain(nowNs: bigint): RetentionState;
  /** Copies the log to the file and syncs both; returns whether the whole log was copied. */
  checkpoint(): boolean;
  /**
   * Closes the file. `endedNs` marks a clean end; without it, the next writer records a gap, as if this writer had been
   * killed. Returns the recording that is left behind if the path no longer refers to it.
   */
  close(endedNs?: bigint): LeftBehind | undefined;
}

/** A recording that was removed, replaced, moved or overwritten while a writer had it open. */
export interface LeftBehind {
  fromNs: bigint;
  /** Number of events in the recording. For an overwritten recording: number of events that this writer committed. */
  events: number;
  /** Current path of the recording; undefined if the file has no path any more. */
  place: string | undefined;
  isOverwritten: boolean;
}

/** Opens a recording for commits. `blocks` are the blocks that the slots in batches refer to. */
export function openCommitter(options: CommitterOptions, blocks: readonly Block[]): Committer {
  const { path } = options;
  const lock = lockRecording(path);
  try {
    const { startNs, startMonotonicNs: _, retention, ...origin } = options;
    const database = openForWriting(path, { ...origin, createdNs: startNs });
    try {
      return runWithRecordingErrors(path, () => createCommitter(database, options, blocks, lock.close));
    } catch (error) {
      database.close();
      throw error;
    }
  } catch (error) {
    lock.close();
    throw error;
  }
}

function createCommitter(
  database: Database.Database,
  { path, startNs, startMonotonicNs, bootId, retention }: CommitterOptions,
  blocks: readonly Block[],
  unlock: () => void,
): Committer {
  const dictionaries = openStoredDictionaries(database);
  const places = readColumnPlaces(database);
  const segments = createSegmentWriter(database, places);
  segments.sealLeftParts(dictionaries.nextIds());
  endInProgress(database, places);
  recordGap(database, { wallNs: startNs, monotonicNs: startMonotonicNs }, bootId);
  const writeSummaries = createSummaryWriter(database, dictionaries.findTransaction);
  const notes = createLossWriter(database);
  const alive = createHeartbeat(database);
  const writeInProgress = createInProgressWriter(database, places);
  const retain = retention && openRetention(database, path, retention, dictionaries.nextIds);
  const identity = readFileIdentity(path);
  const files = ownFiles(path);
  const recordingId = database.prepare<[], string>(RECORDING_ID).pluck().get()!;
  const rawId = openRawId(path);
  const log = openLog(path);
  const isOverwritten = () => rawId.isOther(recordingId);
  let events = 0;
  let closed = false;

  function findLeftBehind(): LeftBehind | undefined {
    if (identity === undefined || readFileIdentity(path) === identity) return undefined;
    const [fromNs, held] = database.prepare<[], [bigint, bigint]>(HELD).raw().safeIntegers().get()!;
    return { fromNs, events: Number(held), place: findOpenFilePath(identity), isOverwritten: false };
  }

  function end(endedNs: bigint | undefined): LeftBehind | undefined {
    if (isOverwritten()) {
      makeOwnFile(path);
      return { fromNs: startNs, events, place: undefined, isOverwritten: true };
    }
    const left = findLeftBehind();
    if (endedNs !== undefined) recordCleanEnd(database, endedNs);
    // Without WAL mode, even users who may not create the log's files can read the recording. Leaving WAL mode fails
    // while a reader has the file open.
    database.pragma('busy_timeout = 0');
    // If a file was moved, replaced or removed, the log is copied to the open file and truncated. A log without a name
    // would be lost. If the log still has its name, SQLite would apply it to the new file at this path.
    if (!files.areThere()) database.pragma('wal_checkpoint(TRUNCATE)');
    else if (!tryLeaveWal(database)) log.sync();
    return left;
  }

  const write = database.transaction((batch: Batch) => {
    dictionaries.write(batch);
    batch.losses.forEach(notes.addLoss);
    batch.clockSteps.forEach(notes.addClockStep);
    for (const { slot, firstNumber, unwritten, seal, idsFrom, idsEnd } of batch.rows) {
      const block = blocks[slot]!;
      if (unwritten.to > unwritten.from) writeSummaries(block, unwritten, (row) => firstNumber + row);
      const ids = { idsFrom, idsEnd };
      if (seal) segments.writeSealed({ block, range: extendToStart(unwritten), firstNumber, ...ids });
      else segments.writePart({ block, range: unwritten, firstNumber: firstNumber + unwritten.from, ...ids });
    }
    if (batch.unended) writeInProgress(batch.unended);
    alive(batch.nowNs);
  });

  return {
    opened: { nextNumber: segments.nextNumber(), ...dictionaries.read() },
    isOverwritten,
    commit(batch) {
      runWithRecordingErrors(path, () => write.immediate(batch));
      for (const { unwritten } of batch.rows) events += unwritten.to - unwritten.from;
    },
    log,
    checkpoint: () =>
      runWithRecordingErrors(path, () => {
        const [[isBusy, frames, copied]] = database.prepare('PRAGMA wal_checkpoint(PASSIVE)').raw().all() as [number[]];
        return isBusy === 0 && frames === copied;
      }),
    retain: (nowNs) => (retain ? runWithRecordingErrors(path, () => retain(nowNs)) : 'done'),
    close(endedNs) {
      if (closed) return undefined;
      closed = true;
      try {
        return runWithRecordingErrors(path, () => end(endedNs));
      } finally {
        database.close();
        rawId.close();
        log.close();
        unlock();
      }
    },
  };
}

/** Returns the range of all rows from the start of the block to the end of the given range. */
function extendToStart({ to, typeFrom, typeTo }: BlockRange): BlockRange {
  return { from: 0, to, typeFrom: new Uint32Array(typeFrom.length), typeTo };
}

/** Returns whether the database left WAL mode, which removes the log. */
function tryLeaveWal(database: Database.Database): boolean {
  try {
    // The mode MEMORY ends with this connection; the next one uses DELETE. Unlike DELETE, MEMORY creates no journal
    // file, which would block readers after a kill.
    database.pragma('journal_mode = MEMORY');
    return true;
  } catch (error) {
    if (!String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY')) throw error;
    return false;
  }
}

/*
 * Reads the recording id directly from the file, not through SQLite. Overwriting the file in place (`cp backup
 * recording.kreplay`) does not change the log, so an open connection would continue with the old log and its cache.
 */

export interface RawId {
  /** Returns whether the file has another recording's id, or no longer has an id. */
  isOther(recordingId: string): boolean;
  close(): void;
}

/**
 * Size of the file's start that is searched for the id. The table with the id is created first, so the id is near the
 * start.
 */
const HEAD_BYTES = 1 << 16;

/** The key `recording_id` and its value are adjacent in the file. */
const ID = /recording_id([0-9a-f]{16})/;
const ID_BYTES = 'recording_id'.length + 16;

/**
 * Opens the file and keeps it open, because closing any descriptor of a file releases the locks that SQLite has on it
 * in this process. For the same reason, the returned object must be closed after the SQLite connection.
 */
export function openRawId(path: string): RawId {
  const fd = open(path);
  const head = Buffer.alloc(HEAD_BYTES);
  /** Offset at which the id was last found; -1 until the id is found, because at first it is only in the log. */
  let place = -1;

  function readRawId(from: number, bytes: number): string | undefined {
    const found = ID.exec(head.toString('latin1', 0, readSync(fd, head, 0, bytes, from)));
    if (!found) return undefined;
    place = from + found.index;
    return found[1];
  }

  function differs(recordingId: string): boolean {
    if (place >= 0 && readRawId(place, ID_BYTES) === recordingId) return false;
    const wasThere = place >= 0;
    const id = readRawId(0, HEAD_BYTES);
    return id === undefined ? wasThere : id !== recordingId;
  }

  return {
    isOther(recordingId) {
      try {
        // The id is read twice, because a read during a write may return half of the old page and half of the new page.
        return differs(recordingId) && differs(recordingId);
      } catch {
        // A failing read does not show whether the file was overwritten. The next operation on the file reports the
        // failure.
        return false;
      }
    },
    close: () => closeSync(fd),
  };
}

function open(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    throw new RecordingError('recording_not_readable', `${path}: ${(error as Error).message}`, error);
  }
}
