/**
 * Writes a recording in a separate thread, so that neither compression nor a slow disk delays the thread that drains
 * the kernel's rings.
 *
 *   this thread    append -> blocks --batch--> ................... written --> blocks are free again
 *   its thread                          encode, compress, commit, retain
 */
import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type Block, computeBlockBytes, createSharedBlock } from '../../../bpf/schema/block.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { RecordingError, type RecordingErrorCode } from '../format/errors.ts';
import type { Batch, ContextRow, OpenedRecording } from './batch.ts';
import type { CommitterOptions, LeftBehind } from './committer.ts';
import { createGatherer, type Gatherer } from './event_buffer.ts';
import type { RecordingWriter, WriterOptions } from './writer.ts';

/**
 * Number of blocks of 4096 events that gather events or wait. At 300,000 events/s, they bridge a disk stall of 0.4 s.
 */
const BLOCKS = 32;

/** Minimum time between two attempts to write after a failure. */
const RETRY_MS = 500;

/** Number of attempts to write at the end if the file is not writable. */
const LAST_TRIES = 3;

type ClosedMessage = Extract<FromWriterThread, { kind: 'closed' }>;

export interface WriterThreadOptions extends WriterOptions {
  /** Called when writing begins to fail, when the error code changes, and with undefined when writing works again. */
  onTrouble(problem: RecordingError | undefined): void;
  /**
   * Called when retention cannot keep the limit. Without `reason`, the segments that must be kept take up too much
   * space.
   */
  onNotRetained?(reason: string | undefined): void;
  onCommitted?(commit: Committed): void;
}

export interface Committed {
  batch: Batch;
  /** Duration of the commit, in seconds. */
  seconds: number;
}

export interface WriterThread extends Omit<RecordingWriter, 'flush' | 'close'> {
  /**
   * Commits the gathered events as soon as the previous commit has ended. `completeNs` is the time up to which the
   * recording is then complete, by default the current time. If this process is killed, the recorded gap begins there.
   */
  flush(completeNs?: bigint): void;
  /**
   * Returns the number of rows that can be appended. Infinite while the file is not writable: excess rows are counted
   * as lost.
   */
  freeRows(): number;
  /** Returns whether another recording was copied over the file. Nothing is written to the file after that. */
  isOverwritten(): boolean;
  /** Returns how long the batch under way has been with the thread; 0 if there is no such batch. */
  waitingMs(): number;
  /** Returns the CLOCK_MONOTONIC time of the first commit that a power loss may destroy; undefined if there is none. */
  unsyncedSinceNs(): bigint | undefined;
  /** Returns the damage of the file, if any. A damaged file is never written again. */
  damage(): RecordingError | undefined;
  /**
   * Commits everything and closes the file; a damaged file is only closed. Rejects if that fails. `completeNs` is as
   * for `flush`. Returns the recording that is left behind if the file lost its path.
   */
  close(completeNs?: bigint): Promise<LeftBehind | undefined>;
}

export async function openWriterThread(options: WriterThreadOptions): Promise<WriterThread> {
  const { nowNs, onTrouble, onNotRetained, onCommitted, ...rest } = options;
  const memory = Array.from({ length: BLOCKS }, () => new SharedArrayBuffer(computeBlockBytes(SEGMENT_ROWS_MAX)));
  const startMonotonicNs = process.hrtime.bigint();
  const workerData: WriterThreadData = { ...rest, startMonotonicNs, startNs: nowNs(), blocks: memory };
  // The compiled file has another extension.
  const worker = new Worker(new URL(`./writer_worker${extname(import.meta.filename)}`, import.meta.url), {
    workerData,
  });
  const opened = await waitForOpened(worker);
  const blocks = memory.map((shared) => createSharedBlock(shared, SEGMENT_ROWS_MAX));
  return createWriter(worker, createGatherer(opened, blocks, nowNs), options);
}

async function waitForOpened(worker: Worker): Promise<OpenedRecording> {
  const [message] = (await once(worker, 'message')) as [FromWriterThread];
  if (message.kind === 'opened') return message.opened;
  await worker.terminate();
  throw toError((message as Extract<FromWriterThread, { kind: 'not_opened' }>).failure);
}

function createWriter(worker: Worker, gatherer: Gatherer, options: WriterThreadOptions): WriterThread {
  const { nowNs, onNotRetained, onCommitted } = options;
  let underWay: Batch | undefined;
  let flushWanted = false;
  let sealAll = false;
  let trouble: RecordingError | undefined;
  /** The error of the last sync of the log; commits continue meanwhile. */
  let syncTrouble: RecordingError | undefined;
  const tell = createChangeReporter(options.onTrouble);
  let unsyncedSinceNs: bigint | undefined;
  /** The damage of the file, if any. Retrying would not help. */
  let damage: RecordingError | undefined;
  let triedMs = 0;
  let completeNs: bigint | undefined;
  /** The error of a bug in the thread. `flush` and `close` throw it. */
  let broken: unknown;
  let isOverwritten = false;
  let isClosed = false;
  let notifySettled = () => {};
  const closed = Promise.withResolvers<Pick<ClosedMessage, 'left' | 'failure'>>();

  worker.on('error', (error) => {
    broken = error;
    notifySettled();
    closed.resolve({ left: undefined, failure: undefined });
  });
  worker.on('message', (message: FromWriterThread) => {
    if (message.kind === 'damaged') setDamage(message.failure);
    else if (message.kind === 'not_retained') onNotRetained?.(message.reason);
    else if (message.kind === 'closed') closed.resolve(message);
    else if (message.kind === 'synced') {
      unsyncedSinceNs = message.unsyncedSinceNs;
      syncTrouble = message.failure && (toError(message.failure) as RecordingError);
      tell(trouble ?? syncTrouble);
    } else if (message.kind === 'written' || message.kind === 'failed' || message.kind === 'overwritten')
      finishBatch(message);
  });

  function finishBatch(message: Extract<FromWriterThread, { kind: 'written' | 'failed' | 'overwritten' }>): void {
    const batch = underWay!;
    underWay = undefined;
    if (message.kind === 'written') {
      gatherer.noteCommit();
      unsyncedSinceNs = message.unsyncedSinceNs;
      onCommitted?.({ batch, seconds: message.seconds });
      if (!damage) setTrouble(undefined);
    } else if (message.kind === 'overwritten') {
      gatherer.noteFailure();
      isOverwritten = true;
    } else {
      gatherer.noteFailure();
      const { failure } = message;
      if (failure.code === 'recording_corrupt') setDamage(failure);
      else if (failure.code) setTrouble(new RecordingError(failure.code, failure.message));
      else broken = createThreadError(failure);
    }
    notifySettled();
    if (flushWanted && !trouble && !broken) flush(completeNs);
  }

  function setDamage({ message }: FailureMessage): void {
    damage ??= new RecordingError('recording_corrupt', message);
    setTrouble(damage);
  }

  function setTrouble(next: RecordingError | undefined): void {
    trouble = next;
    tell(trouble ?? syncTrouble);
  }

  function flush(untilNs?: bigint): void {
    completeNs = untilNs;
    if (broken) throw broken;
    if (isOverwritten || damage) return;
    if (underWay) {
      flushWanted = true;
      return;
    }
    if (trouble && performance.now() - triedMs < RETRY_MS) return;
    flushWanted = false;
    const batch = gatherer.take({ sealAll });
    if (!batch) return;
    underWay = batch;
    triedMs = performance.now();
    send(worker, toMessage({ ...batch, nowNs: completeNs ?? batch.nowNs }));
  }

  /** Waits until no batch is under way. */
  async function settle(): Promise<void> {
    while (underWay && !broken) await new Promise<void>((resolve) => (notifySettled = resolve));
    if (broken) throw broken;
  }

  async function writeAll(untilNs: bigint): Promise<void> {
    await settle();
    if (damage) return;
    sealAll = true;
    for (let tries = LAST_TRIES; tries > 0; tries--) {
      triedMs = 0;
      flush(untilNs);
      await settle();
      if (!trouble || damage) return;
    }
    throw trouble;
  }

  async function closeThread(endedNs: bigint | undefined): Promise<LeftBehind | undefined> {
    send(worker, { kind: 'close', endedNs });
    const { left, failure } = await closed.promise;
    if (failure && !damage) throw toError(failure);
    return left;
  }

  return {
    oldestIds: gatherer.oldestIds,
    nameId: gatherer.nameId,
    fileId: gatherer.fileId,
    contextId: gatherer.contextId,
    recordLoss: gatherer.addLoss,
    recordClock: gatherer.addClockStep,
    setInProgress: gatherer.setInProgress,
    flush,
    isOverwritten: () => isOverwritten,
    damage: () => damage,
    unsyncedSinceNs: () => unsyncedSinceNs,
    waitingMs: () => (underWay ? performance.now() - triedMs : 0),
    freeRows: () => (trouble || isOverwritten ? Number.POSITIVE_INFINITY : gatherer.freeRows()),
    append(block: Block) {
      const taken = gatherer.append(block, 0);
      if (taken < block.rowCount) gatherer.drop(block, taken);
    },
    async close(untilNs = nowNs()) {
      if (isClosed) return undefined;
      isClosed = true;
      let endedNs: bigint | undefined;
      let left: LeftBehind | undefined;
      try {
        await writeAll(untilNs);
        if (!damage) endedNs = untilNs;
      } finally {
        if (!broken) left = await closeThread(endedNs);
        await worker.terminate();
      }
      return left;
    },
  };
}

/** Returns a callback that calls `onTrouble` only when the error code has changed. */
function createChangeReporter(onTrouble: WriterThreadOptions['onTrouble']): WriterThreadOptions['onTrouble'] {
  let code: RecordingErrorCode | undefined;
  return (trouble) => {
    if (trouble?.code === code) return;
    code = trouble?.code;
    onTrouble(trouble);
  };
}

function send(worker: Worker, message: ToWriterThread): void {
  worker.postMessage(message);
}

function toError(failure: FailureMessage): Error {
  return failure.code ? new RecordingError(failure.code, failure.message) : createThreadError(failure);
}

function createThreadError({ message }: FailureMessage): Error {
  return new Error(`the writer's thread failed: ${message}`);
}

/* The messages between the two threads of a writer. Only one batch is under way at a time. */

export interface WriterThreadData extends CommitterOptions {
  /** The blocks in which events gather, shared by both threads. */
  blocks: readonly SharedArrayBuffer[];
}

export type ToWriterThread =
  | {
      kind: 'write';
      batch: Omit<Batch, 'contexts'>;
      /** The batch's new contexts as JSON. Cloning thousands of small lists would cost a quarter more. */
      contexts: { firstId: number; entries: string };
    }
  | { kind: 'close'; endedNs: bigint | undefined };

export function toMessage({ contexts: { firstId, entries }, ...batch }: Batch): ToWriterThread {
  return { kind: 'write', batch, contexts: { firstId, entries: JSON.stringify(entries) } };
}

export function decodeBatch({ batch, contexts }: Extract<ToWriterThread, { kind: 'write' }>): Batch {
  const entries = JSON.parse(contexts.entries) as ContextRow[];
  return { ...batch, contexts: { firstId: contexts.firstId, entries } };
}

/** A failure as plain data, because an error loses its class when it is sent to another thread. */
export interface FailureMessage {
  /** The code of the failure; undefined for an unexpected error, which is a bug. */
  code: RecordingErrorCode | undefined;
  message: string;
}

export type FromWriterThread =
  | { kind: 'opened'; opened: OpenedRecording }
  | { kind: 'not_opened'; failure: FailureMessage }
  /** `unsyncedSinceNs`: CLOCK_MONOTONIC time of the first commit that may not be on the disk yet. */
  | { kind: 'written'; seconds: number; unsyncedSinceNs: bigint | undefined }
  /** A sync of the log has ended. */
  | { kind: 'synced'; unsyncedSinceNs: bigint | undefined; failure: FailureMessage | undefined }
  | { kind: 'failed'; failure: FailureMessage }
  /** Nothing was written, because another recording has been copied over the file. */
  | { kind: 'overwritten' }
  /** Retention found unreadable data, and so can never remove anything again. */
  | { kind: 'damaged'; failure: FailureMessage }
  /** Retention cannot keep the limit. Without a reason, the segments that must be kept take up too much space. */
  | { kind: 'not_retained'; reason: string | undefined }
  | { kind: 'closed'; left: LeftBehind | undefined; failure: FailureMessage | undefined };
