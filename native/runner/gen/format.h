/* Generated from daemon/run/format by `make gen`. Do not edit. */
#ifndef KREPLAY_RUNNER_FORMAT_H
#define KREPLAY_RUNNER_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* As little-endian words. */
#define PLAN_MAGIC 0x1004e414c50524bull
#define REPORT_MAGIC 0x200524e5552524bull

#define OP_WRITE 0
#define OP_PWRITE64 1
#define OP_WRITEV 2
#define OP_PWRITEV 3
#define OP_PWRITEV2 4
#define OP_FSYNC 5
#define OP_FDATASYNC 6
#define OP_SYNC_FILE_RANGE 7
#define OP_MSYNC 8
#define OP_SYNCFS 9
#define OP_SYNC 10
#define OP_COUNT 11

#define PATH_KIND_REGULAR 0
#define PATH_KIND_SOCKET 1
#define PATH_KIND_PIPE 2
#define PATH_KIND_ANON 3
#define PATH_KIND_DEVICE 4
#define PATH_KIND_STD 5
#define PATH_KIND_UNKNOWN 6
#define PATH_KIND_COUNT 7

#define EVENT_FLAG_DERIVED 1
#define EVENT_FLAG_SHORT_WRITE 2
#define EVENT_FLAG_RULED_BY_PATH 4
#define EVENT_FLAG_OWN_CALL 8
#define EVENT_FLAG_RULED_BY_THREAD 16
#define STREAM_FLAG_IN_ORDER 1
#define PLAN_FLAG_STANDARD_FDS 1
#define SIZE_UNKNOWN 4294967295u

#define HOW_EXACT 1
#define HOW_SIZE 2
#define HOW_WINDOW 3
#define HOW_EXTRA 4
#define HOW_DISTRIBUTION 5
#define HOW_NO_STREAM 6
#define HOW_BELOW_THRESHOLD 7
#define HOW_ERROR_INJECTED 8
#define HOW_STALL 9
#define HOW_CLASS 10
#define CALL_FLAG_SHORT_WRITE 1
#define CALL_FLAG_STANDS_IN 2
#define CALL_FLAG_OTHER_ROLE 4
#define NONE 4294967295u

/* the start of a plan */
struct plan_header {
	uint64_t magic; /* PLAN_MAGIC */
	uint64_t file_bytes; /* of the whole file: a shorter one was cut */
	uint64_t seed; /* of all random choices */
	uint32_t stream_count; /* streams */
	uint32_t slot_count; /* slots */
	uint32_t event_count; /* events */
	uint32_t string_bytes; /* bytes of all strings */
	uint64_t streams_at; /* where the streams begin */
	uint64_t slots_at; /* where the slots begin */
	uint64_t events_at; /* where the events begin */
	uint64_t strings_at; /* where the strings begin */
	uint32_t syscall_mask; /* 1 << OP_*: calls that the plan has events of */
	uint32_t flags; /* PLAN_FLAG_* */
};
_Static_assert(sizeof(struct plan_header) == 80, "plan_header");
_Static_assert(offsetof(struct plan_header, magic) == 0, "plan_header.magic");
_Static_assert(offsetof(struct plan_header, file_bytes) == 8, "plan_header.file_bytes");
_Static_assert(offsetof(struct plan_header, seed) == 16, "plan_header.seed");
_Static_assert(offsetof(struct plan_header, stream_count) == 24, "plan_header.stream_count");
_Static_assert(offsetof(struct plan_header, slot_count) == 28, "plan_header.slot_count");
_Static_assert(offsetof(struct plan_header, event_count) == 32, "plan_header.event_count");
_Static_assert(offsetof(struct plan_header, string_bytes) == 36, "plan_header.string_bytes");
_Static_assert(offsetof(struct plan_header, streams_at) == 40, "plan_header.streams_at");
_Static_assert(offsetof(struct plan_header, slots_at) == 48, "plan_header.slots_at");
_Static_assert(offsetof(struct plan_header, events_at) == 56, "plan_header.events_at");
_Static_assert(offsetof(struct plan_header, strings_at) == 64, "plan_header.strings_at");
_Static_assert(offsetof(struct plan_header, syscall_mask) == 72, "plan_header.syscall_mask");
_Static_assert(offsetof(struct plan_header, flags) == 76, "plan_header.flags");

/* recorded calls of one kind, path, command name and service */
struct plan_stream {
	uint32_t op; /* OP_* */
	uint32_t path; /* string: as recorded */
	uint32_t path_kind; /* PATH_KIND_* */
	uint32_t comm; /* string: command name of the threads, as recorded */
	uint32_t service; /* string */
	uint32_t first_slot; /* its slots follow one another */
	uint32_t slot_count; /* at least 1 */
	uint32_t flags; /* STREAM_FLAG_* */
};
_Static_assert(sizeof(struct plan_stream) == 32, "plan_stream");
_Static_assert(offsetof(struct plan_stream, op) == 0, "plan_stream.op");
_Static_assert(offsetof(struct plan_stream, path) == 4, "plan_stream.path");
_Static_assert(offsetof(struct plan_stream, path_kind) == 8, "plan_stream.path_kind");
_Static_assert(offsetof(struct plan_stream, comm) == 12, "plan_stream.comm");
_Static_assert(offsetof(struct plan_stream, service) == 16, "plan_stream.service");
_Static_assert(offsetof(struct plan_stream, first_slot) == 20, "plan_stream.first_slot");
_Static_assert(offsetof(struct plan_stream, slot_count) == 24, "plan_stream.slot_count");
_Static_assert(offsetof(struct plan_stream, flags) == 28, "plan_stream.flags");

/* one thread in a stream, in order of first appearance */
struct plan_slot {
	uint32_t tid; /* as recorded */
	uint32_t comm; /* string: command name, as recorded */
	uint32_t first_event; /* its events follow one another */
	uint32_t event_count; /* at least 1 */
};
_Static_assert(sizeof(struct plan_slot) == 16, "plan_slot");
_Static_assert(offsetof(struct plan_slot, tid) == 0, "plan_slot.tid");
_Static_assert(offsetof(struct plan_slot, comm) == 4, "plan_slot.comm");
_Static_assert(offsetof(struct plan_slot, first_event) == 8, "plan_slot.first_event");
_Static_assert(offsetof(struct plan_slot, event_count) == 12, "plan_slot.event_count");

/* one call, in the order in which its slot made them */
struct plan_event {
	uint64_t offset_ns; /* its start, from the first event of the incident */
	uint64_t target_ns; /* how long the call shall take */
	uint32_t size; /* bytes that it asked to write; SIZE_UNKNOWN */
	uint16_t error; /* errno to return instead of the call; 0: none */
	uint16_t flags; /* EVENT_FLAG_* */
};
_Static_assert(sizeof(struct plan_event) == 24, "plan_event");
_Static_assert(offsetof(struct plan_event, offset_ns) == 0, "plan_event.offset_ns");
_Static_assert(offsetof(struct plan_event, target_ns) == 8, "plan_event.target_ns");
_Static_assert(offsetof(struct plan_event, size) == 16, "plan_event.size");
_Static_assert(offsetof(struct plan_event, error) == 20, "plan_event.error");
_Static_assert(offsetof(struct plan_event, flags) == 22, "plan_event.flags");

/* the start of a report */
struct report_header {
	uint64_t magic; /* REPORT_MAGIC */
	uint32_t call_bytes; /* of each record */
	uint32_t stream_count; /* merged streams */
	uint64_t started_ns; /* CLOCK_MONOTONIC at which the command was started */
	uint64_t plan_seed; /* seed of the plan */
};
_Static_assert(sizeof(struct report_header) == 32, "report_header");
_Static_assert(offsetof(struct report_header, magic) == 0, "report_header.magic");
_Static_assert(offsetof(struct report_header, call_bytes) == 8, "report_header.call_bytes");
_Static_assert(offsetof(struct report_header, stream_count) == 12, "report_header.stream_count");
_Static_assert(offsetof(struct report_header, started_ns) == 16, "report_header.started_ns");
_Static_assert(offsetof(struct report_header, plan_seed) == 24, "report_header.plan_seed");

/* one call of the build; times are of CLOCK_MONOTONIC */
struct report_call {
	uint64_t received_ns; /* when the call was seen */
	uint64_t target_ns; /* how long it was to take; 0: it was let through at once */
	uint64_t replied_ns; /* when it was let through, or answered */
	uint64_t native_ns; /* how long the call itself took after that; 0: not known */
	uint32_t pid; /* process of the thread, as seen within the last half second */
	uint32_t tid; /* thread */
	uint32_t stream; /* merged stream; NONE */
	uint32_t event; /* event of the plan; NONE */
	uint32_t size; /* bytes that it asked to write; SIZE_UNKNOWN */
	uint16_t op; /* OP_* */
	uint8_t how; /* HOW_* */
	uint8_t flags; /* CALL_FLAG_* */
	uint32_t error; /* errno that it returned instead of the call; 0: none */
	uint32_t queued_ns; /* how long it may have waited before it was seen: at most */
};
_Static_assert(sizeof(struct report_call) == 64, "report_call");
_Static_assert(offsetof(struct report_call, received_ns) == 0, "report_call.received_ns");
_Static_assert(offsetof(struct report_call, target_ns) == 8, "report_call.target_ns");
_Static_assert(offsetof(struct report_call, replied_ns) == 16, "report_call.replied_ns");
_Static_assert(offsetof(struct report_call, native_ns) == 24, "report_call.native_ns");
_Static_assert(offsetof(struct report_call, pid) == 32, "report_call.pid");
_Static_assert(offsetof(struct report_call, tid) == 36, "report_call.tid");
_Static_assert(offsetof(struct report_call, stream) == 40, "report_call.stream");
_Static_assert(offsetof(struct report_call, event) == 44, "report_call.event");
_Static_assert(offsetof(struct report_call, size) == 48, "report_call.size");
_Static_assert(offsetof(struct report_call, op) == 52, "report_call.op");
_Static_assert(offsetof(struct report_call, how) == 54, "report_call.how");
_Static_assert(offsetof(struct report_call, flags) == 55, "report_call.flags");
_Static_assert(offsetof(struct report_call, error) == 56, "report_call.error");
_Static_assert(offsetof(struct report_call, queued_ns) == 60, "report_call.queued_ns");

#endif
