/**
 * The report file, which says how long each call of a build took. A header is followed by one record per call, in the
 * order in which the helper answered the calls. The helper appends records during the run, so only the last records are
 * lost if it is killed.
 */
import { defineLayout, u8, u16, u32, u64 } from './layout.ts';

/** The first bytes of a report file; the last of them is the format version. */
export const REPORT_MAGIC = Buffer.from('KRRUNR\0\x02', 'latin1');

/** The way in which a call got its target (its planned duration). */
export const MATCH_KINDS = {
  /** The call got the next recorded event of its slot, and the sizes are equal. */
  exact: 1,
  /** The call got the next recorded event of its slot, but the sizes differ. */
  size: 2,
  /** The call got another recorded event of its slot than the next one, usually a later event. */
  window: 3,
  /** No event fits, so the target was taken from neighbouring events. */
  extra: 4,
  /** The target was drawn at random from the stream's events, if possible from events of about the call's size. */
  distribution: 5,
  no_stream: 6,
  below_threshold: 7,
  /** The call was not made, but returned the error of its event. */
  error_injected: 8,
  /**
   * The call was held until the end of all recorded calls, of the same class (write or sync) on the same file, that
   * were in progress at that time of the incident.
   */
  stall: 9,
  /**
   * The call's file is not in the incident, so the target was drawn from calls of the same kind to files of the same
   * kind.
   */
  class: 10,
} as const;

export type MatchKind = keyof typeof MATCH_KINDS;

export const CALL_FLAGS = {
  /** The helper deliberately wrote fewer bytes than requested. */
  short_write: 1,
  /**
   * The call's file has a name that is not in the incident, and was assumed to be a file of the incident with another
   * name.
   */
  stands_in: 2,
  /** In the incident, no thread with the calling thread's role called on this file. */
  other_role: 4,
} as const;

/** The value of `stream` or `event` for a call that has no stream or no event. */
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
