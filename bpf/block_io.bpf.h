/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records block requests. Each request gets one record, at its completion.
 *
 *   block_getrq, block_bio_*merge   in the task that queued the bio   bio -> owners, time: bio.bpf.h
 *   block_rq_issue                  the device gets the request       request -> owners of all its bios, time
 *   block_rq_complete               in whatever task is interrupted   the record
 */
#ifndef KREPLAY_BLOCK_IO_BPF_H
#define KREPLAY_BLOCK_IO_BPF_H

#include "bio_owner.bpf.h"
#include "filter.bpf.h"

#define BIO_WALK_MAX 256
/*
 * Maximum number of bios of a request whose entries are deleted: enough for the largest request with one bio for each
 * 4096 bytes.
 */
#define BIO_FORGET_MAX 1280

enum request_stage {
	/* The request has ended, but its entry could not be deleted: an interrupted program may hold the map's lock. */
	REQUEST_ENDED,
	REQUEST_ISSUED,
	/* The request's data is written, but the flush that follows is not complete. */
	REQUEST_FLUSHING,
};

/* State of a request from its issue to its end. */
struct request_state {
	struct bio_owner owner;
	__u64 issued_ns;
	__u64 sector;
	__u64 bytes;
	/* Number of bytes whose transfer has ended, with or without an error. */
	__u64 bytes_ended;
	__u64 bytes_done;
	__s32 error;
	__u32 stage;
	__u32 operation;
	__u32 reserved;
};

/* Requests in progress. An LRU map would drop requests without counting the loss. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct request_state);
} request_states SEC(".maps");

/* A program never interrupts itself on a CPU, so one slot for each program is enough. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct request_state);
} request_scratch SEC(".maps");

enum { SCRATCH_ISSUE, SCRATCH_COMPLETE };

/*
 * Adds the owners of a bio to the owners of its request. The task that queued the earliest bio becomes the request's
 * queuer. This is a global function, so that it is verified once instead of for each bio of a request.
 */
__noinline int add_bio(struct bio_owner *request, struct bio_owner *owner)
{
	__u32 is_wanted;

	if (!request || !owner)
		return 0;
	is_wanted = request->queuer.is_wanted | owner->queuer.is_wanted;
	if (!request->queuer.queued_ns || owner->queuer.queued_ns < request->queuer.queued_ns)
		request->queuer = owner->queuer;
	request->queuer.is_wanted = is_wanted;
	for (__u32 slot = 0; slot < ORIGIN_SLOTS && slot < owner->origin_count; slot++)
		add_origin(request, &owner->origins[slot], owner->origins[slot].bytes);
	request->has_others |= owner->has_others;
	return 0;
}

/* A walk over the bios of a request. */
struct bio_walk {
	struct request_state *request;
	/* Address of the next bio; 0 at the end. */
	__u64 bio;
	bool has_unknown;
};

static STEP(gather_next_owner, __u32 i, void *context)
{
	struct bio_walk *walk = context;
	__u64 key = walk->bio;
	struct bio_owner *owner;

	if (!key)
		return 1;
	owner = bpf_map_lookup_elem(&bio_owners, &key);
	if (owner)
		add_bio(&walk->request->owner, owner);
	else
		walk->has_unknown = true;
	walk->bio = (__u64)BPF_CORE_READ((struct bio *)key, bi_next);
	return 0;
}

/* Collects the owners of all bios of a request; returns false if no owner is known. */
static __always_inline bool gather_owners(struct request_state *request, struct request *rq)
{
	struct bio_walk walk = {.request = request, .bio = (__u64)LOAD_POINTER(struct request, rq, bio)};

	__builtin_memset(request, 0, sizeof(*request));
	REPEAT(BIO_WALK_MAX, gather_next_owner, &walk);
	if (walk.has_unknown || walk.bio)
		request->owner.has_others = 1;
	request->sector = rq->__sector;
	request->bytes = rq->__data_len;
	request->operation = block_operation(rq->cmd_flags, rq->__data_len);
	return request->owner.queuer.queued_ns;
}

static STEP(forget_next_bio, __u32 i, void *context)
{
	__u64 *next = context, key = *next;

	if (!key)
		return 1;
	*next = (__u64)BPF_CORE_READ((struct bio *)key, bi_next);
	forget_bio(&key);
	return 0;
}

/*
 * Deletes the entries of a request's bios; `first` is the address of the first bio. This happens after an issued
 * request got its own entry, so the agent, which lists both maps, never misses the request. This is a global function,
 * so that it is verified once instead of at each of its calls.
 */
__noinline int forget_bios(__u64 first)
{
	REPEAT(BIO_FORGET_MAX, forget_next_bio, &first);
	return 0;
}

/* Scratch of block_complete, the only program that emits requests. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block_io);
} block_io_scratch SEC(".maps");

/* Copies the used origins, and returns the size of the record that includes them. */
static __always_inline __u32 copy_origins(struct block_io *event, const struct bio_owner *owner)
{
	__u32 count = 0;

	for (; count < ORIGIN_SLOTS && count < owner->origin_count; count++) {
		/* Without this barrier, clang turns the loop into one copy of variable size. */
		barrier_var(count);
		event->origins[count & (ORIGIN_SLOTS - 1)] = owner->origins[count & (ORIGIN_SLOTS - 1)];
	}
	return sizeof(*event) - sizeof(event->origins) + count * sizeof(event->origins[0]);
}

/*
 * Fills in the fields that describe the device and the owners; the caller fills in the fields of the request itself.
 * Returns the size of the record, which depends on its number of origins: most requests have one origin, and some have
 * sixteen.
 */
static __always_inline __u32 describe_request(struct block_io *event, const struct bio_owner *owner,
					      struct gendisk *disk)
{
	event->event_type = EVENT_BLOCK_IO;
	event->cpu = bpf_get_smp_processor_id();
	event->flags = owner->queuer.flags;
	event->timestamp_ns = owner->queuer.queued_ns;
	event->context_id = owner->queuer.context_id;
	event->process_id = owner->queuer.process_id;
	event->pid = owner->queuer.pid;
	event->tid = owner->queuer.tid;
	__builtin_memcpy(event->comm, owner->queuer.comm, sizeof(event->comm));
	event->origin_count = owner->has_others ? ORIGIN_SLOTS + 1 : owner->origin_count;
	event->cgroup_id = owner->queuer.cgroup_id;
	event->unnamed_bytes = UNKNOWN_U64; /* Computed by the agent, which merges origins of one owner. */
	__builtin_memset(event->device, 0, sizeof(event->device));
	bpf_probe_read_kernel_str(event->device, sizeof(event->device), disk->disk_name);
	return copy_origins(event, owner);
}

static __always_inline void emit(struct request_state *request, struct request *rq, __u64 now_ns)
{
	struct filter_settings *settings = filter();
	struct block_io *event;
	__u32 zero = 0, size;
	void *ring;

	if (!request->owner.queuer.is_wanted || !settings)
		return;
	if (!request->error && now_ns - request->owner.queuer.queued_ns < settings->min_duration_ns)
		return;
	event = bpf_map_lookup_elem(&block_io_scratch, &zero);
	if (!event)
		return;
	event->duration_ns = now_ns - request->owner.queuer.queued_ns;
	event->result = request->error ? request->error : request->bytes_done;
	event->sector = request->sector;
	event->bytes = request->bytes;
	event->queue_ns = request->issued_ns ? request->issued_ns - request->owner.queuer.queued_ns : UNKNOWN_U64;
	event->operation = request->operation;
	size = describe_request(event, &request->owner, BPF_CORE_READ(rq, q, disk));
	barrier_var(size);
	ring = event_ring();
	if (size <= sizeof(*event) && (!ring || bpf_ringbuf_output(ring, event, size, BPF_RB_NO_WAKEUP)))
		count_loss(EVENT_BLOCK_IO, LOSS_RING_FULL);
	wake_for_event(now_ns);
}

/* Returns whether `rq` is still the remembered request, and not a later request that reuses the same structure. */
static __always_inline bool is_of(const struct request_state *request, struct request *rq, unsigned int bytes)
{
	if (request->stage == REQUEST_FLUSHING)
		return !bytes;
	return request->sector + (request->bytes_ended >> 9) == rq->__sector &&
	       request->bytes - request->bytes_ended == rq->__data_len;
}

/*
 * Drops a request whose end was missed, so that the next request at the same address does not get its owners. Linux
 * 6.18 (a guest with two CPUs) was observed to end requests without running any program of the tracepoint and without
 * counting a miss: in bursts of up to 128, and 200 of a million under heavy load. The same requests are missing from
 * perf's samples, but not from its counters.
 */
static __always_inline void forget_unended(struct request_state *request)
{
	request->stage = REQUEST_ENDED;
	count_loss(EVENT_BLOCK_IO, LOSS_END_MISSED);
}

/*
 * Adds an ended part of a request. A request of several bios may end in parts: blk_update_request() continues after a
 * part that failed.
 */
static __always_inline void add_completion(struct request_state *request, int error, unsigned int bytes)
{
	request->bytes_ended += bytes;
	if (error && !request->error)
		request->error = error;
	if (!error)
		request->bytes_done += bytes;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_complete, struct request *rq, int status, unsigned int bytes)
{
	__u64 key = (__u64)rq, now_ns = bpf_ktime_get_boot_ns();
	struct request_state *request;
	__u32 slot = SCRATCH_COMPLETE;
	bool whole = bytes >= rq->__data_len;

	request = bpf_map_lookup_elem(&request_states, &key);
	if (request && request->stage != REQUEST_ENDED && !is_of(request, rq, bytes))
		forget_unended(request);
	if (!request || request->stage == REQUEST_ENDED) {
		/* A flush without data is never issued itself: the block layer performs it with a separate request. */
		request = bpf_map_lookup_elem(&request_scratch, &slot);
		if (request && gather_owners(request, rq)) {
			add_completion(request, block_error(status), bytes);
			emit(request, rq, now_ns);
		}
		forget_bios((__u64)BPF_CORE_READ(rq, bio));
		return 0;
	}
	add_completion(request, block_error(status), bytes);
	if (!whole)
		return 0;
	/* The submitter of a FUA write also waits for the flush that follows, and receives the flush's error. */
	if (request->stage == REQUEST_ISSUED && in_flush_sequence(rq)) {
		request->stage = REQUEST_FLUSHING;
		return 0;
	}
	emit(request, rq, now_ns);
	request->stage = REQUEST_ENDED;
	if (!bpf_map_delete_elem(&request_states, &key))
		count_requests_known(-1);
	return 0;
}

/*
 * Remembers an issued request with the owners of its bios. A requeued request is issued twice. The first issue counts,
 * because it deletes the entries of the bios. If another bio was merged into the request before its second issue, the
 * request belongs to that bio's owners, and the first issue is counted as a missed end. A request without recorded
 * bios, such as a flush of the block layer or a passthrough request, is not remembered.
 */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_issue, struct request *rq)
{
	__u32 slot = SCRATCH_ISSUE;
	struct request_state *request = bpf_map_lookup_elem(&request_scratch, &slot), *known;
	__u64 key = (__u64)rq;

	if (!request)
		return 0;
	if (!gather_owners(request, rq)) {
		forget_bios((__u64)BPF_CORE_READ(rq, bio));
		return 0;
	}
	request->issued_ns = bpf_ktime_get_boot_ns();
	request->stage = REQUEST_ISSUED;
	known = bpf_map_lookup_elem(&request_states, &key);
	if (known && known->stage != REQUEST_ENDED)
		forget_unended(known);
	if (bpf_map_update_elem(&request_states, &key, request, BPF_ANY))
		count_loss(EVENT_BLOCK_IO, LOSS_NO_MEMORY);
	else if (!known)
		count_requests_known(1);
	forget_bios((__u64)BPF_CORE_READ(rq, bio));
	return 0;
}

#endif
