/* Generated from bpf/schema by `make gen`. Do not edit. */
#ifndef KREPLAY_EVENTS_H
#define KREPLAY_EVENTS_H

#define EVENT_SYS_WRITE 1
#define EVENT_BLOCK_IO 2
#define EVENT_SYS_SYNC 3
#define CONTEXT_DEFINITION 64
#define CONTEXT_END 65
#define PROCESS_DEFINITION 66
#define PROGRAM_DEFINITION 68
#define FILE_DEFINITION 67
#define CGROUP_DEFINITION 69
#define CONTEXT_INHERITED_PROCESS 1
#define CONTEXT_INHERITED_THREAD 2
#define CONTEXT_PROCESS_DEFAULT 4
#define CONTEXT_ENVIRONMENT 8
#define CONTEXT_HTTP 16
#define CONTEXT_OTEL 32
#define ORIGIN_AMBIGUOUS 64
#define CONTEXT_LOST 1
#define SCOPE_THREAD 0
#define SCOPE_PROCESS 1
#define SCOPE_ENVIRONMENT 2
#define SCOPE_HTTP 3
#define SCOPE_OTEL 4
#define PROGRAM_ENVIRONMENT_CUT 1
#define FILE_DELETED 1
#define FILE_TRUNCATED 2
#define FILTER_PIDS 1
#define FILTER_ONLY_PIDS 2
#define FILTER_COMMS 4
#define FILTER_ONLY_COMMS 8
#define FILTER_ONLY_LABELLED 16
#define FILTER_PROCESSES 32
#define FILTER_ONLY 1
#define FILTER_EXCEPT 2
#define LOSS_RING_FULL 0
#define LOSS_NO_MEMORY 1
#define LOSS_END_MISSED 2
#define LOSS_MARKER_UNREADABLE 3
#define LOSS_MARKER_FLOOD 4
#define LOSS_SHED 5
#define LOSS_TYPES_MAX 128
#define LOSS_CAUSES_MAX 8
#define MARKER_SIZE 1024
#define PATH_SIZE 4096
#define ARGUMENTS_SIZE 1024
#define PROGRAM_TEXT_SIZE 4096
#define THREAD_RECORD_SIZE 640
#define ENVIRONMENT_NAME_WORDS 4
#define ENVIRONMENT_NAMES 7
#define ENVIRONMENT_TRACEPARENT 6
#define ORIGIN_SLOTS 16
#define BLOCK_OPERATION_READ 0
#define BLOCK_OPERATION_WRITE 1
#define BLOCK_OPERATION_FLUSH 2
#define BLOCK_OPERATION_DISCARD 3
#define BLOCK_OPERATION_OTHER 4
#define CALL_WRITE 1
#define CALL_PWRITE64 18
#define CALL_WRITEV 20
#define CALL_PWRITEV 296
#define CALL_PWRITEV2 328
#define CALL_MSYNC 26
#define CALL_FSYNC 74
#define CALL_FDATASYNC 75
#define CALL_SYNC 162
#define CALL_SYNC_FILE_RANGE 277
#define CALL_SYNCFS 306

/* Names of environment variables and their `=`, as little-endian words; and which of their bytes count. */
struct environment_name {
	__u64 words[ENVIRONMENT_NAME_WORDS];
	__u64 masks[ENVIRONMENT_NAME_WORDS];
};
#define ENVIRONMENT_NAME_TABLE {{{0x5245535f4c45544full, 0x4d414e5f45434956ull, 0x3d45ull, 0x0ull}, {0xffffffffffffffffull, 0xffffffffffffffffull, 0xffffull, 0x0ull}}, {{0x5345525f4c45544full, 0x54415f454352554full, 0x5345545542495254ull, 0x3dull}, {0xffffffffffffffffull, 0xffffffffffffffffull, 0xffffffffffffffffull, 0xffull}}, {{0x4e5f424f4a5f4943ull, 0x3d454d41ull, 0x0ull, 0x0ull}, {0xffffffffffffffffull, 0xffffffffull, 0x0ull, 0x0ull}}, {{0x4a5f425548544947ull, 0x3d424full, 0x0ull, 0x0ull}, {0xffffffffffffffffull, 0xffffffull, 0x0ull, 0x0ull}}, {{0x454d414e5f424f4aull, 0x3dull, 0x0ull, 0x0ull}, {0xffffffffffffffffull, 0xffull, 0x0ull, 0x0ull}}, {{0x54494b444c495542ull, 0x3d4c4542414c5f45ull, 0x0ull, 0x0ull}, {0xffffffffffffffffull, 0xffffffffffffffffull, 0x0ull, 0x0ull}}, {{0x5241504543415254ull, 0x3d544e45ull, 0x0ull, 0x0ull}, {0xffffffffffffffffull, 0xffffffffull, 0x0ull, 0x0ull}}}

/* One owner of a block request. */
struct event_origin {
	__u64 context_id;
	__u64 process_id;
	__u64 time_ns; /* CLOCK_BOOTTIME at which it wrote, or queued, what the request carries */
	__u32 bytes; /* 0: not known, of a journal that several wrote to */
	__u32 flags; /* CONTEXT_* bits */
};
_Static_assert(sizeof(struct event_origin) == 32, "event_origin");
_Static_assert(__builtin_offsetof(struct event_origin, context_id) == 0, "event_origin.context_id");
_Static_assert(__builtin_offsetof(struct event_origin, process_id) == 8, "event_origin.process_id");
_Static_assert(__builtin_offsetof(struct event_origin, time_ns) == 16, "event_origin.time_ns");
_Static_assert(__builtin_offsetof(struct event_origin, bytes) == 24, "event_origin.bytes");
_Static_assert(__builtin_offsetof(struct event_origin, flags) == 28, "event_origin.flags");

/* [record type][cause], added to atomically. */
struct loss_counters {
	__u64 lost[LOSS_TYPES_MAX][LOSS_CAUSES_MAX];
};

/* one call of the write family, from entry to return */
struct sys_write {
	__u16 event_type; /* what the record is */
	__u16 cpu; /* CPU that the event ended on */
	__u32 flags; /* CONTEXT_* bits */
	__u64 timestamp_ns; /* start of the event, nanoseconds since the epoch */
	__u64 duration_ns; /* from start to end, nanoseconds */
	__u64 context_id; /* whose event it is */
	__u64 process_id; /* which program ran; it names the service */
	__u32 pid; /* process id (thread group), in the root pid namespace */
	__u32 tid; /* thread id, in the root pid namespace */
	char comm[16]; /* command name of the thread */
	__s64 result; /* bytes transferred, 0 for a sync, or a negative errno */
	__u64 file_id; /* path, `socket:[inode]`, `pipe:[inode]` or `anon_inode:name`; null when not known */
	__u64 bytes_requested; /* bytes that the caller asked to write; null when its iovec could not be read */
	__s32 fd; /* file descriptor */
	__u32 syscall; /* which call of the family */
};
_Static_assert(sizeof(struct sys_write) == 96, "sys_write");
_Static_assert(__builtin_offsetof(struct sys_write, event_type) == 0, "sys_write.event_type");
_Static_assert(__builtin_offsetof(struct sys_write, cpu) == 2, "sys_write.cpu");
_Static_assert(__builtin_offsetof(struct sys_write, flags) == 4, "sys_write.flags");
_Static_assert(__builtin_offsetof(struct sys_write, timestamp_ns) == 8, "sys_write.timestamp_ns");
_Static_assert(__builtin_offsetof(struct sys_write, duration_ns) == 16, "sys_write.duration_ns");
_Static_assert(__builtin_offsetof(struct sys_write, context_id) == 24, "sys_write.context_id");
_Static_assert(__builtin_offsetof(struct sys_write, process_id) == 32, "sys_write.process_id");
_Static_assert(__builtin_offsetof(struct sys_write, pid) == 40, "sys_write.pid");
_Static_assert(__builtin_offsetof(struct sys_write, tid) == 44, "sys_write.tid");
_Static_assert(__builtin_offsetof(struct sys_write, comm) == 48, "sys_write.comm");
_Static_assert(__builtin_offsetof(struct sys_write, result) == 64, "sys_write.result");
_Static_assert(__builtin_offsetof(struct sys_write, file_id) == 72, "sys_write.file_id");
_Static_assert(__builtin_offsetof(struct sys_write, bytes_requested) == 80, "sys_write.bytes_requested");
_Static_assert(__builtin_offsetof(struct sys_write, fd) == 88, "sys_write.fd");
_Static_assert(__builtin_offsetof(struct sys_write, syscall) == 92, "sys_write.syscall");

/* one block request, from its queueing to its completion */
struct block_io {
	__u16 event_type; /* what the record is */
	__u16 cpu; /* CPU that the event ended on */
	__u32 flags; /* CONTEXT_* bits */
	__u64 timestamp_ns; /* start of the event, nanoseconds since the epoch */
	__u64 duration_ns; /* from start to end, nanoseconds */
	__u64 context_id; /* whose event it is */
	__u64 process_id; /* which program ran; it names the service */
	__u32 pid; /* process id (thread group), in the root pid namespace */
	__u32 tid; /* thread id, in the root pid namespace */
	char comm[16]; /* command name of the thread */
	__s64 result; /* bytes transferred, 0 for a sync, or a negative errno */
	__u64 sector; /* first sector on the device, in units of 512 bytes */
	__u64 bytes; /* bytes of the request */
	__u64 queue_ns; /* wait before the device got it, nanoseconds; null when it never went there by itself */
	__u32 operation; /* what was asked of the device */
	__u32 origin_count; /* slots used in origins, or more than there are slots */
	__u64 cgroup_id; /* cgroup that the block layer charges; 0 when it knows of none */
	__u64 unnamed_bytes; /* bytes of a write that no owner in `origins` is named for; null where that is not recorded */
	char device[32]; /* disk name */
	struct event_origin origins[16]; /* whose data it carries: up to four owners, each with its bytes */
};
_Static_assert(sizeof(struct block_io) == 664, "block_io");
_Static_assert(__builtin_offsetof(struct block_io, event_type) == 0, "block_io.event_type");
_Static_assert(__builtin_offsetof(struct block_io, cpu) == 2, "block_io.cpu");
_Static_assert(__builtin_offsetof(struct block_io, flags) == 4, "block_io.flags");
_Static_assert(__builtin_offsetof(struct block_io, timestamp_ns) == 8, "block_io.timestamp_ns");
_Static_assert(__builtin_offsetof(struct block_io, duration_ns) == 16, "block_io.duration_ns");
_Static_assert(__builtin_offsetof(struct block_io, context_id) == 24, "block_io.context_id");
_Static_assert(__builtin_offsetof(struct block_io, process_id) == 32, "block_io.process_id");
_Static_assert(__builtin_offsetof(struct block_io, pid) == 40, "block_io.pid");
_Static_assert(__builtin_offsetof(struct block_io, tid) == 44, "block_io.tid");
_Static_assert(__builtin_offsetof(struct block_io, comm) == 48, "block_io.comm");
_Static_assert(__builtin_offsetof(struct block_io, result) == 64, "block_io.result");
_Static_assert(__builtin_offsetof(struct block_io, sector) == 72, "block_io.sector");
_Static_assert(__builtin_offsetof(struct block_io, bytes) == 80, "block_io.bytes");
_Static_assert(__builtin_offsetof(struct block_io, queue_ns) == 88, "block_io.queue_ns");
_Static_assert(__builtin_offsetof(struct block_io, operation) == 96, "block_io.operation");
_Static_assert(__builtin_offsetof(struct block_io, origin_count) == 100, "block_io.origin_count");
_Static_assert(__builtin_offsetof(struct block_io, cgroup_id) == 104, "block_io.cgroup_id");
_Static_assert(__builtin_offsetof(struct block_io, unnamed_bytes) == 112, "block_io.unnamed_bytes");
_Static_assert(__builtin_offsetof(struct block_io, device) == 120, "block_io.device");
_Static_assert(__builtin_offsetof(struct block_io, origins) == 152, "block_io.origins");

/* one call that waits until data is on the disk, from entry to return */
struct sys_sync {
	__u16 event_type; /* what the record is */
	__u16 cpu; /* CPU that the event ended on */
	__u32 flags; /* CONTEXT_* bits */
	__u64 timestamp_ns; /* start of the event, nanoseconds since the epoch */
	__u64 duration_ns; /* from start to end, nanoseconds */
	__u64 context_id; /* whose event it is */
	__u64 process_id; /* which program ran; it names the service */
	__u32 pid; /* process id (thread group), in the root pid namespace */
	__u32 tid; /* thread id, in the root pid namespace */
	char comm[16]; /* command name of the thread */
	__s64 result; /* bytes transferred, 0 for a sync, or a negative errno */
	__u64 file_id; /* path of the file; null when not known, and for `sync` and `msync`, which are given none */
	__s32 fd; /* file descriptor; -1 for `sync` and `msync` */
	__u32 syscall; /* which call of the family */
};
_Static_assert(sizeof(struct sys_sync) == 88, "sys_sync");
_Static_assert(__builtin_offsetof(struct sys_sync, event_type) == 0, "sys_sync.event_type");
_Static_assert(__builtin_offsetof(struct sys_sync, cpu) == 2, "sys_sync.cpu");
_Static_assert(__builtin_offsetof(struct sys_sync, flags) == 4, "sys_sync.flags");
_Static_assert(__builtin_offsetof(struct sys_sync, timestamp_ns) == 8, "sys_sync.timestamp_ns");
_Static_assert(__builtin_offsetof(struct sys_sync, duration_ns) == 16, "sys_sync.duration_ns");
_Static_assert(__builtin_offsetof(struct sys_sync, context_id) == 24, "sys_sync.context_id");
_Static_assert(__builtin_offsetof(struct sys_sync, process_id) == 32, "sys_sync.process_id");
_Static_assert(__builtin_offsetof(struct sys_sync, pid) == 40, "sys_sync.pid");
_Static_assert(__builtin_offsetof(struct sys_sync, tid) == 44, "sys_sync.tid");
_Static_assert(__builtin_offsetof(struct sys_sync, comm) == 48, "sys_sync.comm");
_Static_assert(__builtin_offsetof(struct sys_sync, result) == 64, "sys_sync.result");
_Static_assert(__builtin_offsetof(struct sys_sync, file_id) == 72, "sys_sync.file_id");
_Static_assert(__builtin_offsetof(struct sys_sync, fd) == 80, "sys_sync.fd");
_Static_assert(__builtin_offsetof(struct sys_sync, syscall) == 84, "sys_sync.syscall");

/* a task has a new context */
struct context_definition {
	__u16 definition_type; /* what the record defines */
	__u16 reserved; /* zero */
	__u32 text_size; /* bytes of text after the record */
	__u64 context_id; /* number that events carry */
	__u64 time_ns; /* CLOCK_BOOTTIME */
	__u32 pid; /* process that wrote it */
	__u32 tid; /* thread that wrote it */
	__u32 uid; /* real user id of the writer */
	__u32 scope; /* SCOPE_* */
	__u64 outer_context_id; /* what held without it: a marker without a trace goes on with its trace */
	__u64 share; /* share that it counts against, a number: see current_share() of bpf/budget.bpf.h */
};
_Static_assert(sizeof(struct context_definition) == 56, "context_definition");
_Static_assert(__builtin_offsetof(struct context_definition, definition_type) == 0, "context_definition.definition_type");
_Static_assert(__builtin_offsetof(struct context_definition, reserved) == 2, "context_definition.reserved");
_Static_assert(__builtin_offsetof(struct context_definition, text_size) == 4, "context_definition.text_size");
_Static_assert(__builtin_offsetof(struct context_definition, context_id) == 8, "context_definition.context_id");
_Static_assert(__builtin_offsetof(struct context_definition, time_ns) == 16, "context_definition.time_ns");
_Static_assert(__builtin_offsetof(struct context_definition, pid) == 24, "context_definition.pid");
_Static_assert(__builtin_offsetof(struct context_definition, tid) == 28, "context_definition.tid");
_Static_assert(__builtin_offsetof(struct context_definition, uid) == 32, "context_definition.uid");
_Static_assert(__builtin_offsetof(struct context_definition, scope) == 36, "context_definition.scope");
_Static_assert(__builtin_offsetof(struct context_definition, outer_context_id) == 40, "context_definition.outer_context_id");
_Static_assert(__builtin_offsetof(struct context_definition, share) == 48, "context_definition.share");

/* a context lost its setter */
struct context_end {
	__u16 definition_type; /* what the record defines */
	__u16 reserved; /* zero */
	__u32 text_size; /* bytes of text after the record */
	__u64 context_id; /* the number that ended */
	__u64 time_ns; /* CLOCK_BOOTTIME */
};
_Static_assert(sizeof(struct context_end) == 24, "context_end");
_Static_assert(__builtin_offsetof(struct context_end, definition_type) == 0, "context_end.definition_type");
_Static_assert(__builtin_offsetof(struct context_end, reserved) == 2, "context_end.reserved");
_Static_assert(__builtin_offsetof(struct context_end, text_size) == 4, "context_end.text_size");
_Static_assert(__builtin_offsetof(struct context_end, context_id) == 8, "context_end.context_id");
_Static_assert(__builtin_offsetof(struct context_end, time_ns) == 16, "context_end.time_ns");

/* a process was seen in a new program or cgroup, or for a minute */
struct process_definition {
	__u16 definition_type; /* what the record defines */
	__u16 reserved; /* zero */
	__u32 text_size; /* bytes of text after the record */
	__u64 process_id; /* number that events carry; a definition of a known number renews it */
	__u64 program_id; /* what it runs; 0 for a kernel thread, or when the definition was lost */
	__u64 start_ns; /* CLOCK_BOOTTIME at which the process started */
	__u64 cgroup_id; /* inode of its folder, in the hierarchy that the agent named */
	__u32 pid; /* process id */
	__u32 uid; /* real user id */
	__u32 kernel_thread; /* 1 when the task has no program */
	__u32 exec_id; /* number of the task's exec: low bits of self_exec_id */
	__u64 stack_start; /* address of the program's first stack frame, which /proc/PID/stat has too; 0 for a kernel thread */
	__u64 share; /* share that it counts against, a number: see current_share() of bpf/budget.bpf.h */
};
_Static_assert(sizeof(struct process_definition) == 72, "process_definition");
_Static_assert(__builtin_offsetof(struct process_definition, definition_type) == 0, "process_definition.definition_type");
_Static_assert(__builtin_offsetof(struct process_definition, reserved) == 2, "process_definition.reserved");
_Static_assert(__builtin_offsetof(struct process_definition, text_size) == 4, "process_definition.text_size");
_Static_assert(__builtin_offsetof(struct process_definition, process_id) == 8, "process_definition.process_id");
_Static_assert(__builtin_offsetof(struct process_definition, program_id) == 16, "process_definition.program_id");
_Static_assert(__builtin_offsetof(struct process_definition, start_ns) == 24, "process_definition.start_ns");
_Static_assert(__builtin_offsetof(struct process_definition, cgroup_id) == 32, "process_definition.cgroup_id");
_Static_assert(__builtin_offsetof(struct process_definition, pid) == 40, "process_definition.pid");
_Static_assert(__builtin_offsetof(struct process_definition, uid) == 44, "process_definition.uid");
_Static_assert(__builtin_offsetof(struct process_definition, kernel_thread) == 48, "process_definition.kernel_thread");
_Static_assert(__builtin_offsetof(struct process_definition, exec_id) == 52, "process_definition.exec_id");
_Static_assert(__builtin_offsetof(struct process_definition, stack_start) == 56, "process_definition.stack_start");
_Static_assert(__builtin_offsetof(struct process_definition, share) == 64, "process_definition.share");

/* a program was started or first seen */
struct program_definition {
	__u16 definition_type; /* what the record defines */
	__u16 reserved; /* zero */
	__u32 text_size; /* bytes of text after the record */
	__u64 program_id; /* number that process definitions carry */
	__u32 arguments_size; /* bytes of the text that are arguments */
	__u32 flags; /* PROGRAM_* bits */
	char executable[64]; /* file name of the program, without its folder */
};
_Static_assert(sizeof(struct program_definition) == 88, "program_definition");
_Static_assert(__builtin_offsetof(struct program_definition, definition_type) == 0, "program_definition.definition_type");
_Static_assert(__builtin_offsetof(struct program_definition, reserved) == 2, "program_definition.reserved");
_Static_assert(__builtin_offsetof(struct program_definition, text_size) == 4, "program_definition.text_size");
_Static_assert(__builtin_offsetof(struct program_definition, program_id) == 8, "program_definition.program_id");
_Static_assert(__builtin_offsetof(struct program_definition, arguments_size) == 16, "program_definition.arguments_size");
_Static_assert(__builtin_offsetof(struct program_definition, flags) == 20, "program_definition.flags");
_Static_assert(__builtin_offsetof(struct program_definition, executable) == 24, "program_definition.executable");

/* a file was first written to */
struct file_definition {
	__u16 definition_type; /* what the record defines */
	__u16 reserved; /* zero */
	__u32 text_size; /* bytes of text after the record */
	__u64 file_id; /* number that events carry */
	__u64 inode; /* inode number */
	__u64 filesystem; /* magic number of its filesystem */
	__u32 mode; /* st_mode */
	__u32 flags; /* FILE_* bits */
};
_Static_assert(sizeof(struct file_definition) == 40, "file_definition");
_Static_assert(__builtin_offsetof(struct file_definition, definition_type) == 0, "file_definition.definition_type");
_Static_assert(__builtin_offsetof(struct file_definition, reserved) == 2, "file_definition.reserved");
_Static_assert(__builtin_offsetof(struct file_definition, text_size) == 4, "file_definition.text_size");
_Static_assert(__builtin_offsetof(struct file_definition, file_id) == 8, "file_definition.file_id");
_Static_assert(__builtin_offsetof(struct file_definition, inode) == 16, "file_definition.inode");
_Static_assert(__builtin_offsetof(struct file_definition, filesystem) == 24, "file_definition.filesystem");
_Static_assert(__builtin_offsetof(struct file_definition, mode) == 32, "file_definition.mode");
_Static_assert(__builtin_offsetof(struct file_definition, flags) == 36, "file_definition.flags");

/* a process was seen in a cgroup */
struct cgroup_definition {
	__u16 definition_type; /* what the record defines */
	__u16 reserved; /* zero */
	__u32 text_size; /* bytes of text after the record */
	__u64 cgroup_id; /* inode of its folder, which process definitions carry */
};
_Static_assert(sizeof(struct cgroup_definition) == 16, "cgroup_definition");
_Static_assert(__builtin_offsetof(struct cgroup_definition, definition_type) == 0, "cgroup_definition.definition_type");
_Static_assert(__builtin_offsetof(struct cgroup_definition, reserved) == 2, "cgroup_definition.reserved");
_Static_assert(__builtin_offsetof(struct cgroup_definition, text_size) == 4, "cgroup_definition.text_size");
_Static_assert(__builtin_offsetof(struct cgroup_definition, cgroup_id) == 8, "cgroup_definition.cgroup_id");

#endif
