/** Writes a recording in the calling thread, for tools and tests. An agent uses writer_thread.ts. */
import { type Block, createBlock } from '../../../bpf/schema/block.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { toRecordingError } from '../format/errors.ts';
import type { ClockStep, Loss } from '../format/losses.ts';
import type { RetentionLimits } from '../retain/retention.ts';
import type { UnendedRows } from './batch.ts';
import { openCommitter } from './committer.ts';
import type { Dictionaries } from './dictionaries.ts';
import { createGatherer } from './event_buffer.ts';

/** Number of segments that may wait in memory while the file is not writable. Further events are counted as lost. */
export const WAITING_SEGMENTS_MAX = 16;

export interface WriterOptions {
  path: string;
  /** The id of a new recording, which is random by default. */
  recordingId?: string;
  node: string;
  bootId: string;
  machineId: string;
  /** Returns the time of the wall clock, in nanoseconds since the epoch. */
  nowNs: () => bigint;
  retention?: RetentionLimits;
}

export interface RecordingWriter extends Pick<Dictionaries, 'nameId' | 'fileId' | 'contextId' | 'oldestIds'> {
  /** Copies the rows. Does not throw if the disk is full: the next `flush` throws the error. */
  append(block: Block): void;
  /** Commits the gathered rows, losses and clock steps. If it throws, it keeps everything for the next call. */
  flush(): void;
  recordLoss(loss: Loss, parts?: readonly Loss[]): void;
  recordClock(step: ClockStep): void;
  /** Sets the calls and requests in progress, and replaces those that were set before. */
  setInProgress(unended: UnendedRows): void;
  close(): void;
}

export function openWriter({ nowNs, ...options }: WriterOptions): RecordingWriter {
  const { path } = options;
  const blocks = Array.from({ length: WAITING_SEGMENTS_MAX }, () => createBlock(SEGMENT_ROWS_MAX));
  const startMonotonicNs = process.hrtime.bigint();
  const committer = openCommitter({ ...options, startMonotonicNs, startNs: nowNs() }, blocks);
  const gatherer = createGatherer(committer.opened, blocks, nowNs);
  let closed = false;

  function flush(sealAll = false): void {
    const batch = gatherer.take({ sealAll });
    if (!batch) return;
    try {
      committer.commit(batch);
    } catch (error) {
      gatherer.noteFailure();
      throw error;
    }
    gatherer.noteCommit();
    committer.retain(nowNs());
  }

  /** Makes room for the rest of a block. Ignores recording errors, because the caller's own flush reports them. */
  function tryFlush(): void {
    try {
      flush();
    } catch (error) {
      if ((toRecordingError(error, path) as { code?: unknown }).code === undefined) throw error;
    }
  }

  return {
    oldestIds: gatherer.oldestIds,
    nameId: gatherer.nameId,
    fileId: gatherer.fileId,
    contextId: gatherer.contextId,
    append(block) {
      let from = gatherer.append(block, 0);
      while (from < block.rowCount) {
        tryFlush();
        if (gatherer.freeRows() === 0) return gatherer.drop(block, from);
        from = gatherer.append(block, from);
      }
    },
    flush: () => flush(),
    recordLoss: gatherer.addLoss,
    recordClock: gatherer.addClockStep,
    setInProgress: gatherer.setInProgress,
    close() {
      if (closed) return;
      closed = true;
      let endedNs: bigint | undefined;
      try {
        flush(true);
        endedNs = nowNs();
      } finally {
        committer.close(endedNs);
      }
    },
  };
}
