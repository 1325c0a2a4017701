/**
 * The report: how long each call of a build took. It has a header, then one record per call, in the order in which the
 * calls were answered. Records are appended while the build runs, so that only the last records are lost if the helper
 * is killed.
 */
import { defineLayout, u8, u16, u32, u64 } from './layout.ts';

/** Identifies a report file; the last byte is the version. */
export const REPORT_MAGIC = Buffer.from('KRRUNR\0\x02', 'latin1');

/** How a call got its target. */
export const MATCH_KINDS = {
  /** The next recorded event of its slot has the same size. */
  exact: 1,
  /** The next recorded event of its slot has another size. */
  size: 2,
  /** The target is that of a later recorded event. */
  window: 3,
  /** No event fits, so the target is that of neighbouring events. */
  extra: 4,
  /** The target is drawn from the stream's distribution. */
  distribution: 5,
  no_stream: 6,
  below_threshold: 7,
  /** The call was not made: it returned the error of its event. */
  error_injected: 8,
  /** The call was held until all recorded calls under way at that time had ended. */
  stall: 9,
  /**
   * The call's file is not in the incident, so the target is drawn from calls of the same kind to files of the same
   * kind.
   */
  class: 10,
} as const;

export type MatchKind = keyof typeof MATCH_KINDS;

export const CALL_FLAGS = {
  /** Fewer bytes were written than requested, on purpose. */
  short_write: 1,
  /** The call's file was assumed to be a file of the incident that has another name. */
  stands_in: 2,
  /** No thread with the role of the calling thread made calls on the file in the incident. */
  other_role: 4,
} as const;

/** Value of `stream` and `event` in a call that has none. */
export const NONE = 0xffffffff;

export const reportHeader = defineLayout('report_header', 'the start of a report', {
  magic: u64('REPORT_MAGIC'),
  call_bytes: u32('of each record'),
  stream_count: u32('merged streams'),
  started_ns: u64('CLOCK_MONOTONIC at which the command was started'),
  plan_seed: u64('seed of the plan'),
});

export const reportCall = defineLayout('report_call', 'one call of the build; times are of CLOCK_MONOTONIC', {
  received_ns: u64('when the call was seen'),
  target_ns: u64('how long it was to take; 0: it was let through at once'),
  replied_ns: u64('when it was let through, or answered'),
  native_ns: u64('how long the call itself took after that; 0: not known'),
  pid: u32('process of the thread, as seen within the last half second'),
  tid: u32('thread'),
  stream: u32('merged stream; NONE'),
  event: u32('event of the plan; NONE'),
  size: u32('bytes that it asked to write; SIZE_UNKNOWN'),
  op: u16('OP_*'),
  how: u8('HOW_*'),
  flags: u8('CALL_FLAG_*'),
  error: u32('errno that it returned instead of the call; 0: none'),
  queued_ns: u32('how long it may have waited before it was seen: at most'),
});
