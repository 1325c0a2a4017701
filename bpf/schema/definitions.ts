/**
 * Dictionary records. A record is sent through a definition ring when a context, process, program, file or cgroup is
 * first seen; events refer to the record by its id. Records of two rings are not ordered relative to each other, so the
 * agent resolves references when it writes out a batch.
 */
import { defineRecord } from './define.ts';
import { internal, text, u32, u64 } from './kinds.ts';

/** Maximum size of a marker line, including the terminating NUL. */
export const MARKER_SIZE = 1024;
/** Maximum size of a path in a definition, including the terminating NUL. */
export const PATH_SIZE = 4096;

/**
 * Maximum size of an accepted record of OpenTelemetry's thread context, which is the limit that the proposal
 * recommends.
 */
export const THREAD_RECORD_SIZE = 640;

/** Maximum size in bytes of the arguments in a program's definition. */
export const ARGUMENTS_SIZE = 1024;
/** Maximum size in bytes of the arguments and environment variables together. */
export const PROGRAM_TEXT_SIZE = 4096;

const head = {
  definition_type: internal('__u16', 'what the record defines'),
  reserved: internal('__u16', 'zero'),
  text_size: u32('bytes of text after the record'),
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
  /** The record of OpenTelemetry's thread context (OTEP 4947), unchanged. */
  SCOPE_OTEL: 4,
} as const;

/**
 * The text of the marker or trace follows the record. `context_id` is a new id, and the task holds this context from
 * `time_ns` on.
 */
export const contextDefinition = defineRecord('context_definition', 64, 'a task has a new context', {
  ...head,
  context_id: u64('number that events carry'),
  time_ns: u64('CLOCK_BOOTTIME'),
  pid: u32('process that wrote it'),
  tid: u32('thread that wrote it'),
  uid: u32('real user id of the writer'),
  scope: u32('SCOPE_*'),
  outer_context_id: u64('what held without it: a marker without a trace goes on with its trace'),
  share: u64('share that it counts against, a number: see current_share() of bpf/budget.bpf.h'),
});

/**
 * A task no longer holds its context, because the context was replaced or ended by a marker, or because the task
 * exited.
 */
export const contextEnd = defineRecord('context_end', 65, 'a context lost its setter', {
  ...head,
  context_id: u64('the number that ended'),
  time_ns: u64('CLOCK_BOOTTIME'),
});

export const processDefinition = defineRecord(
  'process_definition',
  66,
  'a process was seen in a new program or cgroup, or for a minute',
  {
    ...head,
    process_id: u64('number that events carry; a definition of a known number renews it'),
    program_id: u64('what it runs; 0 for a kernel thread, or when the definition was lost'),
    start_ns: u64('CLOCK_BOOTTIME at which the process started'),
    cgroup_id: u64('inode of its folder, in the hierarchy that the agent named'),
    pid: u32('process id'),
    uid: u32('real user id'),
    kernel_thread: u32('1 when the task has no program'),
    exec_id: u32("number of the task's exec: low bits of self_exec_id"),
    stack_start: u64("address of the program's first stack frame, which /proc/PID/stat has too; 0 for a kernel thread"),
    share: u64('share that it counts against, a number: see current_share() of bpf/budget.bpf.h'),
  },
);

/** The text after the record contains the names of the path's folders, from the leaf up, each with a NUL. */
export const cgroupDefinition = defineRecord('cgroup_definition', 69, 'a process was seen in a cgroup', {
  ...head,
  cgroup_id: u64('inode of its folder, which process definitions carry'),
});

export const PROGRAM_FLAGS = {
  /**
   * A variable did not fit into the record, there were too many variables to search, or the variables were not in place
   * yet.
   */
  PROGRAM_ENVIRONMENT_CUT: 1,
} as const;

/**
 * The program that an exec started; forked processes run the same program. The text after the record contains the
 * arguments, each with a NUL, truncated at ARGUMENTS_SIZE. They are followed by `NAME=value` and a NUL for each of
 * ENVIRONMENT_NAMES that is set.
 */
export const programDefinition = defineRecord('program_definition', 68, 'a program was started or first seen', {
  ...head,
  program_id: u64('number that process definitions carry'),
  arguments_size: u32('bytes of the text that are arguments'),
  flags: u32('PROGRAM_* bits'),
  executable: text(64, 'file name of the program, without its folder'),
});

/** The text after the record contains the names of the path, from the leaf up, each with a NUL. */
export const fileDefinition = defineRecord('file_definition', 67, 'a file was first written to', {
  ...head,
  file_id: u64('number that events carry'),
  inode: u64('inode number'),
  filesystem: u64('magic number of its filesystem'),
  mode: u32('st_mode'),
  flags: u32('FILE_* bits'),
});

export const FILE_FLAGS = {
  /** The file no longer has a name. */
  FILE_DELETED: 1,
  /** The path exceeds the maximum depth or length of a definition, so its beginning is missing. */
  FILE_TRUNCATED: 2,
} as const;

export const DEFINITIONS = [
  contextDefinition,
  contextEnd,
  processDefinition,
  programDefinition,
  fileDefinition,
  cgroupDefinition,
] as const;
