/**
 * Dictionary records: sent once through the definition ring when something is first seen; events carry the number.
 * Two rings have no order between them, so the agent resolves references when it writes a batch out.
 */
import { defineRecord } from './define.ts';
import { internal, text, u32, u64 } from './kinds.ts';

/** Longest marker line and longest path that a definition carries, with the terminating NUL. */
export const MARKER_SIZE = 1024;
export const PATH_SIZE = 4096;

/** Longest record of OpenTelemetry's thread context that is taken: what the proposal recommends not to exceed. */
export const THREAD_RECORD_SIZE = 640;

/** Arguments that a program's definition carries at most, and those together with environment variables; bytes. */
export const ARGUMENTS_SIZE = 1024;
export const PROGRAM_TEXT_SIZE = 4096;

const head = {
  definition_type: internal('__u16', 'what the record defines'),
  reserved: internal('__u16', 'zero'),
  text_size: u32('bytes of text behind the record'),
};

export const CONTEXT_SCOPES = {
  /** A marker line for the thread. */
  SCOPE_THREAD: 0,
  /** A marker line for the process. */
  SCOPE_PROCESS: 1,
  /** The value of TRACEPARENT that a program was started with. */
  SCOPE_ENVIRONMENT: 2,
  /** The value of the header `traceparent` of a request that the thread has read. */
  SCOPE_HTTP: 3,
  /** The record of OpenTelemetry's thread context (OTEP 4947), as it is. */
  SCOPE_OTEL: 4,
} as const;

/** Behind it its text; `context_id` is new, and the task holds it from `time_ns` on. */
export const contextDefinition = defineRecord('context_definition', 64, 'a task has a new context', {
  ...head,
  context_id: u64('number that events carry'),
  time_ns: u64('CLOCK_BOOTTIME'),
  pid: u32('process that wrote it'),
  tid: u32('thread that wrote it'),
  uid: u32('real user id of the writer'),
  scope: u32('SCOPE_*'),
  outer_context_id: u64('what held without it: a marker without a trace goes on with its trace'),
});

/** A task let go of its context: replaced, ended by a marker, or the task exited. */
export const contextEnd = defineRecord('context_end', 65, 'a context lost its setter', {
  ...head,
  context_id: u64('the number that ended'),
  time_ns: u64('CLOCK_BOOTTIME'),
});

export const processDefinition = defineRecord('process_definition', 66, 'a task was seen in a new program', {
  ...head,
  process_id: u64('number that events carry'),
  program_id: u64('what it runs; 0 for a kernel thread, or when the definition was lost'),
  start_ns: u64('CLOCK_BOOTTIME at which the process started'),
  cgroup_id: u64('inode of its folder, in the hierarchy that the agent named'),
  pid: u32('process id'),
  uid: u32('real user id'),
  kernel_thread: u32('1 when the task has no program'),
  reserved2: u32('zero'),
});

export const PROGRAM_FLAGS = {
  /** A variable was longer than there is room for, there were too many to look at, or they were not there yet. */
  PROGRAM_ENVIRONMENT_CUT: 1,
} as const;

/**
 * What an exec started; its forks run the same. The text behind it: the arguments, each with a NUL, cut where the room
 * ends; then `NAME=value` and a NUL for each of ENVIRONMENT_NAMES that is set.
 */
export const programDefinition = defineRecord('program_definition', 68, 'a program was started or first seen', {
  ...head,
  program_id: u64('number that process definitions carry'),
  arguments_size: u32('bytes of the text that are arguments'),
  flags: u32('PROGRAM_* bits'),
  executable: text(64, 'file name of the program, without its folder'),
});

/** The text behind it holds the path's names, leaf first, each with a NUL. */
export const fileDefinition = defineRecord('file_definition', 67, 'a file was first written to', {
  ...head,
  file_id: u64('number that events carry'),
  inode: u64('inode number'),
  filesystem: u64('magic number of its filesystem'),
  mode: u32('st_mode'),
  flags: u32('FILE_* bits'),
});

export const FILE_FLAGS = {
  /** No name leads to it any more. */
  FILE_DELETED: 1,
  /** Deeper or longer than a definition holds: the front is missing. */
  FILE_TRUNCATED: 2,
} as const;

export const DEFINITIONS = [
  contextDefinition,
  contextEnd,
  processDefinition,
  programDefinition,
  fileDefinition,
] as const;
