/**
 * Reads the complete records of a run's report. If the helper was killed, the last record may be incomplete and is
 * ignored.
 */
import { RunError } from '../errors.ts';
import { readColumn, readRecord } from '../format/layout.ts';
import { MATCH_KINDS, NONE, REPORT_MAGIC, reportCall, reportHeader } from '../format/report_file.ts';

/** The calls of a report, as columns. Times are relative to the command's start. */
export interface CallReport {
  readonly count: number;
  readonly receivedNs: Float64Array;
  readonly targetNs: Float64Array;
  /** Time for which the helper held the call. */
  readonly heldNs: Float64Array;
  /** Maximum time for which the call may have queued before the helper received it. */
  readonly queuedNs: Float64Array;
  readonly nativeNs: Float64Array;
  readonly tid: Float64Array;
  readonly stream: Float64Array;
  readonly event: Float64Array;
  readonly size: Float64Array;
  readonly op: Float64Array;
  readonly how: Float64Array;
  readonly error: Float64Array;
  readonly flags: Float64Array;
}

export function readReport(bytes: Buffer, eventCount: number): CallReport {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes.length === 0) return createEmptyReport();
  if (bytes.length < reportHeader.size) throw createUnreadableError('it ends within its header');
  const { magic, call_bytes, started_ns } = readRecord(view, 0, reportHeader);
  if (magic !== REPORT_MAGIC.readBigUInt64LE())
    throw createUnreadableError('it does not begin as one, or is of another version');
  if (call_bytes !== reportCall.size) throw createUnreadableError(`its records have ${call_bytes} bytes`);
  const whole = Math.floor((bytes.length - reportHeader.size) / reportCall.size);
  const readNamedColumn = (name: keyof (typeof reportCall)['fields'], count = whole) =>
    readColumn(view, reportHeader.size, reportCall, name, count);
  const received = readNamedColumn('received_ns');
  const replied = readNamedColumn('replied_ns');
  const count = countWritten(received);
  const startNs = Number(started_ns);
  return {
    count,
    receivedNs: received.subarray(0, count).map((ns) => ns - startNs),
    heldNs: replied.subarray(0, count).map((ns, at) => Math.max(ns - received[at]!, 0)),
    targetNs: readNamedColumn('target_ns', count),
    queuedNs: readNamedColumn('queued_ns', count),
    nativeNs: readNamedColumn('native_ns', count),
    tid: readNamedColumn('tid', count),
    stream: readNamedColumn('stream', count),
    event: readNamedColumn('event', count).map((event) => (event < eventCount ? event : NONE)),
    size: readNamedColumn('size', count),
    op: readNamedColumn('op', count),
    how: readNamedColumn('how', count).map((how) => (HOW_NUMBERS.has(how) ? how : MATCH_KINDS.no_stream)),
    error: readNamedColumn('error', count),
    flags: readNamedColumn('flags', count),
  };
}

const HOW_NUMBERS: ReadonlySet<number> = new Set(Object.values(MATCH_KINDS));

/**
 * Counts the records that were written. The helper extends the file before it writes records, so the file may end with
 * zeros.
 */
function countWritten(received: Float64Array): number {
  let count = received.length;
  while (count > 0 && received[count - 1] === 0) count--;
  return count;
}

export function createEmptyReport(): CallReport {
  const none = new Float64Array();
  return {
    count: 0,
    receivedNs: none,
    targetNs: none,
    heldNs: none,
    queuedNs: none,
    nativeNs: none,
    tid: none,
    stream: none,
    event: none,
    size: none,
    op: none,
    how: none,
    error: none,
    flags: none,
  };
}

function createUnreadableError(why: string): RunError {
  return new RunError(`the runner's report cannot be read: ${why}`);
}
