/** Whether somebody writes a recording just now: its own words, the lock, and how long ago it was written. */
import { readFileSync } from 'node:fs';
import type { RecordedSpan } from '../../agent/recording/read/recorded_span.ts';
import { isRecorded } from '../../agent/recording/write/lock.ts';
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';

/** An agent commits every second, also when nothing happens; a busy machine may hold it up. */
export const SILENT_AFTER_NS = 5_000_000_000n;

export interface WrittenSpan extends Omit<RecordedSpan, 'end' | 'committed'> {
  /**
   * `open`: an agent holds the lock. `killed`: it did not end, and nobody holds the lock. `unsaid`: a copy that was made
   * while an agent was at work.
   */
  end: 'closed' | 'open' | 'killed' | 'unsaid';
  /** A copy, a bundle or another file that was named: what was recorded after its end is not asked of it. */
  isWholeFile: boolean;
  /** How long ago an open one was written by a clock that nobody sets; undefined where only the wall clock can tell. */
  unwrittenNs?: bigint;
}

/** Undefined when nothing is known of who wrote it. */
export function writtenSpan({ file, reader }: OpenRecording): WrittenSpan | undefined {
  const read = () => withFailuresOf(file, () => reader.recordedSpan());
  const span = read();
  if (!span) return undefined;
  if (file.source !== 'live') return { ...span, isWholeFile: true };
  if (span.end === 'closed') return told(span, 'closed');
  if (isRecorded(file.path) !== false) return told(span, 'open');
  // It may have ended, and another one may have begun, since the file was read.
  const now = read() ?? span;
  if (now.end === 'closed') return told(now, 'closed');
  return told(now, now.toNs === span.toNs ? 'killed' : 'open');
}

export function isSilent({ toNs, unwrittenNs }: Pick<WrittenSpan, 'toNs' | 'unwrittenNs'>, nowNs: bigint): boolean {
  return (unwrittenNs ?? nowNs - toNs) > SILENT_AFTER_NS;
}

function told({ fromNs, toNs, committed }: RecordedSpan, end: WrittenSpan['end']): WrittenSpan {
  const isHere = end === 'open' && committed !== undefined && committed.bootId === bootId();
  const hasEnded = end === 'closed' || end === 'killed';
  return {
    fromNs,
    toNs: hasEnded ? endBy(toNs, committed) : toNs,
    end,
    isWholeFile: false,
    ...(isHere && { unwrittenNs: process.hrtime.bigint() - committed.monotonicNs }),
  };
}

/**
 * When an agent ended, by the clock as it is: when the clock was set back since, the agent has recorded nothing of the
 * time that the clock says again. That it ended before this boot is all that is known of a former one.
 */
function endBy(toNs: bigint, committed: RecordedSpan['committed']): bigint {
  const monotonicNs = process.hrtime.bigint();
  // It has whole milliseconds.
  const nowNs = BigInt(Date.now() + 1) * 1_000_000n;
  const isThisBoot = committed?.bootId === bootId();
  if (!isThisBoot && toNs <= nowNs) return toNs;
  const endedNs = nowNs - (isThisBoot ? monotonicNs - committed.monotonicNs : monotonicNs);
  return endedNs < toNs ? endedNs : toNs;
}

let knownBootId: string | undefined;

function bootId(): string {
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
