/**
 * Data of several recordings besides events: the spans, losses and clock steps of nodes, and the state of each file.
 */

import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { type ClockStep, encodeReason, encodeScope, type LossParts } from '../../../agent/recording/format/losses.ts';
import type { RecordedSpan, RecordingReader } from '../../../agent/recording/read/reader.ts';
import { isRecorded } from '../../../agent/recording/write/lock.ts';
import { isSetAside } from '../../../agent/recording/write/set_aside.ts';
import { nowNs } from '../../base/wall_clock.ts';
import type { NodeClock, NodeLoss, NodeSpan, RecordingState, SpanOfNode } from '../store.ts';
import type { WrittenSpan } from '../written_span.ts';
import { withFileErrors } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';

/** Returns the names sorted and without duplicates. */
export function mergeNames(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}

export function readRecordingState(recording: OpenRecording): RecordingState {
  const { file, reader, recordingId, node } = recording;
  return withFileErrors(file, () => {
    const { retainBytes, eventCount, firstTimestampNs, lastTimestampNs } = reader.info();
    return {
      recordingId,
      node,
      source: file.source,
      sizeBytes: reader.sizeBytes(),
      limitBytes: retainBytes,
      eventCount,
      firstTimestampNs,
      lastTimestampNs,
      lastWriter: reader.isWritten() ? (readWrittenSpan(recording) ?? null) : null,
      lost: reader.lossTotals(),
    };
  });
}

/** Returns the span of time that each recording covers on its node. */
export function listWrittenSpans(recordings: readonly OpenRecording[]): NodeSpan[] {
  return recordings.flatMap((recording) => {
    const span = readWrittenSpan(recording);
    return span ? [{ node: recording.node, ...span }] : [];
  });
}

type RecordedLoss = ReturnType<RecordingReader['losses']>[number];

/** Returns the losses of the recordings. Copies of a recording count once. */
export function readMergedLosses(
  recordings: readonly OpenRecording[],
  { fromNs, toNs, parts }: { fromNs: bigint; toNs: bigint; parts: LossParts | undefined },
): NodeLoss[] {
  const readLosses = ({ file, reader }: OpenRecording) =>
    withFileErrors(file, () => reader.losses(fromNs, toNs, parts));
  return [...Map.groupBy(recordings, ({ recordingId }) => recordingId).values()].flatMap((copies) => {
    const { node } = copies[0]!;
    const losses = copies.map(readLosses).reduce(mergeCopiedLosses);
    return losses.map(({ count, ...loss }) => ({ ...loss, lost: count, node }));
  });
}

/** Merges the loss records of two copies of a recording. A record that both copies have counts once. */
function mergeCopiedLosses(known: RecordedLoss[], more: RecordedLoss[]): RecordedLoss[] {
  const left = Map.groupBy(known, buildLossKey);
  const both = [...known, ...more.filter((loss) => !left.get(buildLossKey(loss))?.pop())];
  // Retention has a single record whose count grows, so the record with the largest count includes the others.
  const removed = both.filter(isRemoved).sort((a, b) => b.count - a.count);
  return [...both.filter((loss) => !isRemoved(loss)), ...removed.slice(0, 1)];
}

function isRemoved({ cause }: RecordedLoss): boolean {
  return cause === 'retention';
}

function buildLossKey({ fromNs, toNs, eventType, count, ...reason }: RecordedLoss): string {
  return `${fromNs} ${toNs} ${eventType} ${count} ${encodeReason(reason)} ${encodeScope(reason)}`;
}

/**
 * Counts the events that began in the span. The count is undefined if several files may contain the same event, or if a
 * file contains only selected events, as a bundle does.
 */
export function countMergedEvents(
  recordings: readonly OpenRecording[],
  { fromNs, toNs }: Pick<SpanOfNode, 'fromNs' | 'toNs'>,
): number | undefined {
  if (new Set(recordings.map(({ recordingId }) => recordingId)).size < recordings.length) return undefined;
  let total = 0;
  for (const { file, reader } of recordings) {
    const count = withFileErrors(file, () => (reader.isWritten() ? reader.countEvents(fromNs, toNs) : undefined));
    if (count === undefined) return undefined;
    total += count;
  }
  return total;
}

/** Returns the total size of the steps of each node's wall clock. */
export function readNodeClocks(
  recordings: readonly OpenRecording[],
  nodes: readonly string[],
  fromNs: bigint,
  toNs: bigint,
): NodeClock[] {
  return nodes.map((node) => {
    const steppedNs = recordings
      .filter((recording) => recording.node === node)
      .map(({ file, reader }) =>
        sumStepsNs(
          withFileErrors(file, () => reader.clockSteps()),
          fromNs,
          toNs,
        ),
      )
      // Overlapping files contain the same steps, so the largest sum counts.
      .reduce((most, other) => (other > most ? other : most), 0n);
    return { node, steppedNs };
  });
}

function sumStepsNs(steps: readonly ClockStep[], fromNs: bigint, toNs: bigint): bigint {
  let sum = 0n;
  for (const [i, { kind, bootNs, offsetNs }] of steps.entries()) {
    const before = steps[i - 1];
    // A new agent started here. The movement of the clock since the previous agent stopped is unknown.
    if (!before || kind === 'start') continue;
    const movedNs = offsetNs - before.offsetNs;
    const atNs = bootNs + offsetNs;
    const wasAtNs = atNs - movedNs;
    const [firstNs, lastNs] = movedNs < 0n ? [atNs, wasAtNs] : [wasAtNs, atNs];
    if (firstNs < toNs && lastNs >= fromNs) sum += movedNs < 0n ? -movedNs : movedNs;
  }
  return sum;
}

/*
 * Determines whether a process is writing a recording, from the state in the file, the lock, and the time since the
 * last write.
 */

/** Returns the span of a recording and the state of its writer; undefined if nothing is known about its writer. */
export function readWrittenSpan({ file, reader }: OpenRecording): WrittenSpan | undefined {
  const read = () => withFileErrors(file, () => reader.recordedSpan());
  const span = read();
  if (!span) return undefined;
  if (span.end === 'unsaid' && isSetAside(basename(file.path))) return { ...span, end: 'damaged', isWholeFile: true };
  if (file.source !== 'live') return { ...span, isWholeFile: true };
  if (span.end === 'closed') return toWrittenSpan(span, 'closed');
  if (isRecorded(file.path) !== false) return toWrittenSpan(span, 'open');
  // Since the file was read, the agent may have ended, and another agent may have started.
  const now = read() ?? span;
  if (now.end === 'closed') return toWrittenSpan(now, 'closed');
  return toWrittenSpan(now, now.toNs === span.toNs ? 'killed' : 'open');
}

function toWrittenSpan({ fromNs, toNs, committed }: RecordedSpan, end: WrittenSpan['end']): WrittenSpan {
  const isHere = end === 'open' && committed !== undefined && committed.bootId === getBootId();
  const hasEnded = end === 'closed' || end === 'killed';
  return {
    fromNs,
    toNs: hasEnded ? computeEndNs(toNs, committed) : toNs,
    end,
    isWholeFile: false,
    ...(isHere && { unwrittenNs: process.hrtime.bigint() - committed.monotonicNs }),
  };
}

/**
 * Returns the time at which an agent ended, by the current wall clock. The recorded `toNs` is too late if the wall
 * clock was set back since then, so the end is computed from the monotonic clock. An agent of an earlier boot is only
 * known to have ended before this boot.
 */
function computeEndNs(toNs: bigint, committed: RecordedSpan['committed']): bigint {
  const monotonicNs = process.hrtime.bigint();
  const untilNs = nowNs();
  const isThisBoot = committed?.bootId === getBootId();
  if (!isThisBoot && toNs <= untilNs) return toNs;
  const endedNs = untilNs - (isThisBoot ? monotonicNs - committed.monotonicNs : monotonicNs);
  return endedNs < toNs ? endedNs : toNs;
}

let knownBootId: string | undefined;

function getBootId(): string {
  knownBootId ??= readBootId();
  return knownBootId;
}

function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return 'unknown';
  }
}
