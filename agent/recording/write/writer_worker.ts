/** The thread that owns the database, started by writer_thread.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { createSharedBlock } from '../../../bpf/schema/block.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { RecordingError } from '../format/errors.ts';
import type { Batch } from './batch.ts';
import { type Committer, type LeftBehind, openCommitter } from './committer.ts';
import { type LogSync, logSync } from './log_sync.ts';
import {
  decodeBatch,
  type FailureMessage,
  type FromWriterThread,
  type ToWriterThread,
  type WriterThreadData,
} from './writer_thread.ts';

const port = parentPort!;
const { blocks: memory, ...options } = workerData as WriterThreadData;
const blocks = memory.map((shared) => createSharedBlock(shared, SEGMENT_ROWS_MAX));

let retaining: NodeJS.Immediate | undefined;
/**
 * The last batch. Retention uses its wall-clock time, which is recent even for a quiet writer. The whole batch is kept
 * because of V8: once no object of a shape is left, V8 discards the code compiled for that shape, and compiling it
 * again costs 20 ms.
 */
let last: Batch | undefined;

const committer = open();
if (committer) {
  const sync = logSync({
    ...committer,
    onSynced(error) {
      send({
        kind: 'synced',
        unsyncedSinceNs: sync.unsyncedSinceNs(),
        failure: error && toFailureMessage(error),
      });
    },
  });
  // An earlier writer's commits may be only in the log, and the log may not be on the disk. So the log is synced first.
  sync.noteCommit();
  send({ kind: 'opened', opened: committer.opened });
  port.on('message', (message: ToWriterThread) => {
    if (message.kind === 'write') write(committer, sync, message);
    else void close(committer, sync, message.endedNs);
  });
  retainLater(committer);
}

function open(): Committer | undefined {
  try {
    return openCommitter(options, blocks);
  } catch (error) {
    send({ kind: 'not_opened', failure: toFailureMessage(error) });
    return undefined;
  }
}

function write(writer: Committer, sync: LogSync, message: Extract<ToWriterThread, { kind: 'write' }>): void {
  const batch = decodeBatch(message);
  last = batch;
  if (writer.isOverwritten()) {
    send({ kind: 'overwritten' });
    return;
  }
  const startMs = performance.now();
  try {
    writer.commit(batch);
    if (tells(batch)) sync.noteCommit();
    const seconds = (performance.now() - startMs) / 1e3;
    send({ kind: 'written', seconds, unsyncedSinceNs: sync.unsyncedSinceNs() });
  } catch (error) {
    send({ kind: 'failed', failure: toFailureMessage(error) });
    return;
  }
  retainLater(writer);
}

/**
 * Returns whether the batch has data that queries return. A writer sends other batches every second, and an idle node
 * need not wake its disk for them.
 */
function tells({ rows, losses, clockSteps }: Batch): boolean {
  return rows.length > 0 || losses.length > 0 || clockSteps.length > 0;
}

/** Runs retention between batches, one step at a time, because batches have priority. */
function retainLater(writer: Committer): void {
  retaining ??= setImmediate(() => {
    retaining = undefined;
    try {
      const state = writer.retain(last?.nowNs ?? options.startNs);
      if (state === 'more') retainLater(writer);
      else if (state === 'stuck') send({ kind: 'not_retained', reason: undefined });
    } catch (error) {
      if (!(error instanceof RecordingError)) throw error;
      if (error.code === 'recording_corrupt') {
        send({ kind: 'damaged', failure: toFailureMessage(error) });
        return;
      }
      // Another process may lock the file for a moment. If the disk is full, commits fail too and report that.
      const passes = error.code === 'recording_busy' || error.code === 'recording_full';
      if (!passes) send({ kind: 'not_retained', reason: error.message });
    }
  });
}

async function close(writer: Committer, sync: LogSync, endedNs: bigint | undefined): Promise<void> {
  clearImmediate(retaining);
  await sync.end();
  let failure: FailureMessage | undefined;
  let left: LeftBehind | undefined;
  try {
    left = writer.close(endedNs);
  } catch (error) {
    failure = toFailureMessage(error);
  }
  send({ kind: 'closed', left, failure });
  port.close();
}

function toFailureMessage(error: unknown): FailureMessage {
  if (error instanceof RecordingError) return { code: error.code, message: error.message };
  return { code: undefined, message: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

function send(message: FromWriterThread): void {
  port.postMessage(message);
}
