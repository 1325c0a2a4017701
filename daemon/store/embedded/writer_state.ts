/**
 * Determines whether a process is writing a recording, from the state in the file, the lock, and the time since the
 * last write.
 */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { RecordedSpan } from '../../../agent/recording/read/recorded_span.ts';
import { isRecorded } from '../../../agent/recording/write/lock.ts';
import { isSetAside } from '../../../agent/recording/write/set_aside.ts';
import { nowNs } from '../../base/wall_clock.ts';
import type { WrittenSpan } from '../written_span.ts';
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';

/** Returns undefined if nothing is known about its writer. */
export function writtenSpan({ file, reader }: OpenRecording): WrittenSpan | undefined {
  const read = () => withFailuresOf(file, () => reader.recordedSpan());
  const span = read();
  if (!span) return undefined;
  if (span.end === 'unsaid' && isSetAside(basename(file.path))) return { ...span, end: 'damaged', isWholeFile: true };
  if (file.source !== 'live') return { ...span, isWholeFile: true };
  if (span.end === 'closed') return told(span, 'closed');
  if (isRecorded(file.path) !== false) return told(span, 'open');
  // Since the file was read, the agent may have ended and another one may have started.
  const now = read() ?? span;
  if (now.end === 'closed') return told(now, 'closed');
  return told(now, now.toNs === span.toNs ? 'killed' : 'open');
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
 * Returns when an agent ended, by the current wall clock: if the clock was set back since, the agent has recorded
 * nothing of the time that the clock repeats. An agent of an earlier boot is only known to have ended before this boot.
 */
function endBy(toNs: bigint, committed: RecordedSpan['committed']): bigint {
  const monotonicNs = process.hrtime.bigint();
  const untilNs = nowNs();
  const isThisBoot = committed?.bootId === bootId();
  if (!isThisBoot && toNs <= untilNs) return toNs;
  const endedNs = untilNs - (isThisBoot ? monotonicNs - committed.monotonicNs : monotonicNs);
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
