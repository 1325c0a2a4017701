import { boot_time, context, internal, process, s64, text, u16, u32, u64 } from './kinds.ts';

/**
 * Values of `flags` of an event: how its context reached the task. They are bits, because a process that a thread
 * forked can have both flags of inheritance.
 */
export const CONTEXT_FLAGS = {
  /** The context was copied to a forked process from its parent. */
  CONTEXT_INHERITED_PROCESS: 1,
  /**
   * The thread shares the context of the thread that created it. The context is valid only while the thread that set it
   * still holds it.
   */
  CONTEXT_INHERITED_THREAD: 2,
  /** The event has the process's default context (`KREPLAY1 proc ...`), not a context of the thread. */
  CONTEXT_PROCESS_DEFAULT: 4,
  /**
   * The context is the trace of the TRACEPARENT that the process was started with; always with CONTEXT_PROCESS_DEFAULT.
   */
  CONTEXT_ENVIRONMENT: 8,
  /** The context is the trace of the HTTP request that the thread read last. */
  CONTEXT_HTTP: 16,
  /** The context is the trace that the thread itself publishes in OpenTelemetry's thread context. */
  CONTEXT_OTEL: 32,
  /** The origin dirtied a part of the pages that it represents, but other tasks may have dirtied these pages, too. */
  ORIGIN_AMBIGUOUS: 64,
} as const;

/** `context_id` of a definition that could not be stored. The owner of the event is then unknown. */
export const CONTEXT_LOST = 1;

/** Every event starts with these fields. */
export const commonFields = {
  event_type: internal('__u16', 'what the record is'),
  cpu: u16('CPU that the event ended on'),
  flags: internal('__u32', 'CONTEXT_* bits'),
  timestamp_ns: boot_time('start of the event, nanoseconds since the epoch'),
  duration_ns: u64('from start to end, nanoseconds'),
  context_id: context('whose event it is'),
  process_id: process('which program ran; it names the service'),
  pid: u32('process id (thread group), in the root pid namespace'),
  tid: u32('thread id, in the root pid namespace'),
  comm: text(16, 'command name of the thread'),
  result: s64('bytes transferred, 0 for a sync, or a negative errno'),
} as const;
