/**
 * The plan file, which says how long each call of a build takes. Numbers are little-endian, because the helper maps the
 * file and reads it directly.
 *
 *   header | streams | slots | events | strings
 *
 *   stream "http-1 writes /data/wal/seg-1.log"
 *     slot thread 4711      first_event ->  0 1 2 3      in recorded order
 *     slot thread 4712      first_event ->          4 5
 *
 * Positions in the file are byte offsets from its start and multiples of 8. A string is stored as an offset into the
 * strings and ends with a NUL; offset 0 is the empty string.
 */
import { defineLayout, u16, u32, u64 } from './layout.ts';

/** The first bytes of a plan file; the last of them is the format version. */
export const PLAN_MAGIC = Buffer.from('KRPLAN\0\x01', 'latin1');

/** System calls that the helper delays. Calls with numbers below `fsync` are writes, and the other calls are syncs. */
export const OPS = {
  write: 0,
  pwrite64: 1,
  writev: 2,
  pwritev: 3,
  pwritev2: 4,
  fsync: 5,
  fdatasync: 6,
  sync_file_range: 7,
  msync: 8,
  syncfs: 9,
  sync: 10,
} as const;

export type Op = keyof typeof OPS;

export const PATH_KINDS = { regular: 0, socket: 1, pipe: 2, anon: 3, device: 4, std: 5, unknown: 6 } as const;

export type PathKind = keyof typeof PATH_KINDS;

export const EVENT_FLAGS = {
  /** The event was derived from block requests: the call itself was not recorded. */
  derived: 1,
  /** The call writes only half of the bytes that it was asked to write. */
  short_write: 2,
  /** The target or the fault applies only to calls on this path, because a rule with a path set it. */
  ruled_by_path: 4,
  /** The error or the short write applies only to the recorded system call, not to others of the same class. */
  own_call: 8,
  /**
   * The target or the fault applies only to threads of this role, because a rule with a thread name or a service set
   * it.
   */
  ruled_by_thread: 16,
} as const;

export const STREAM_FLAGS = {
  /**
   * Calls of this kind on this file hardly ever overlapped (OVERLAPPING_SHARE_MAX in file_order.ts), even calls of
   * different threads, so calls are matched in the file's order.
   */
  in_order: 1,
} as const;

export const PLAN_FLAGS = {
  /**
   * Set if the plan's streams include files on descriptors 0 to 2, as with `dd of=`. If not set, a call on one of these
   * descriptors counts only if its file is in the plan, because other calls go to the build's terminal, pipe or log.
   */
  standard_fds: 1,
} as const;

export const SIZE_UNKNOWN = 0xffffffff;

export const planHeader = defineLayout('plan_header', 'the start of a plan', {
  magic: u64('PLAN_MAGIC'),
  file_bytes: u64('of the whole file: a shorter one was cut'),
  seed: u64('of all random choices'),
  stream_count: u32('streams'),
  slot_count: u32('slots'),
  event_count: u32('events'),
  string_bytes: u32('bytes of all strings'),
  streams_at: u64('where the streams begin'),
  slots_at: u64('where the slots begin'),
  events_at: u64('where the events begin'),
  strings_at: u64('where the strings begin'),
  syscall_mask: u32('1 << OP_*: calls that the plan has events of'),
  flags: u32('PLAN_FLAG_*'),
});

export const planStream = defineLayout('plan_stream', 'recorded calls of one kind, path, command name and service', {
  op: u32('OP_*'),
  path: u32('string: as recorded'),
  path_kind: u32('PATH_KIND_*'),
  comm: u32('string: command name of the threads, as recorded'),
  service: u32('string'),
  first_slot: u32('its slots follow one another'),
  slot_count: u32('at least 1'),
  flags: u32('STREAM_FLAG_*'),
});

export const planSlot = defineLayout('plan_slot', 'one thread in a stream, in order of first appearance', {
  tid: u32('as recorded'),
  comm: u32('string: command name, as recorded'),
  first_event: u32('its events follow one another'),
  event_count: u32('at least 1'),
});

export const planEvent = defineLayout('plan_event', 'one call, in the order in which its slot made them', {
  offset_ns: u64('its start, from the first event of the incident'),
  target_ns: u64('how long the call shall take'),
  size: u32('bytes that it asked to write; SIZE_UNKNOWN'),
  error: u16('errno to return instead of the call; 0: none'),
  flags: u16('EVENT_FLAG_*'),
});
