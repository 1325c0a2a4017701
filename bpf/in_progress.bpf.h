/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Lists the calls and block requests in progress: the calls that tasks are making, and the requests that wait or are at
 * a device. The agent runs these programs from time to time (libbpf-ts: iterate() and testRun()). They emit records of
 * events without the fields that are known only at the end. Block requests go into a ring, and calls into a seq_file,
 * as frames in the format of a drained ring.
 */
#ifndef KREPLAY_IN_PROGRESS_BPF_H
#define KREPLAY_IN_PROGRESS_BPF_H

#include "block_io.bpf.h"
#include "call.bpf.h"

/* Header of a frame: u32 length, u32 zero. */
#define FRAME_HEADER(type) ((__u64)sizeof(type))

struct write_frame {
	__u64 header;
	struct sys_write event;
};

struct sync_frame {
	__u64 header;
	struct sys_sync event;
};

/*
 * The program at a call's entry may be interrupted at any point: until it has described the call, it is unknown who
 * owns the call and whether the filter wants it.
 */
#define omit_description(event)                                                                                        \
	({                                                                                                             \
		(event)->flags = 0;                                                                                    \
		(event)->context_id = CONTEXT_LOST;                                                                    \
		(event)->process_id = 0;                                                                               \
		(event)->file_id = 0;                                                                                  \
	})

static __always_inline void list_write(struct seq_file *output, struct task_struct *task, struct task_state *state,
				       __u64 start_ns, __u16 call_type)
{
	struct write_frame frame = {.header = FRAME_HEADER(struct sys_write)};

	fill_call(&frame.event, EVENT_SYS_WRITE, task, state, start_ns, 0, 0);
	frame.event.bytes_requested = state->bytes_requested;
	if (call_type & CALL_UNDESCRIBED)
		omit_description(&frame.event);
	/* The call has ended in the meantime, and another call may have begun. */
	if (*(volatile __u64 *)&state->start_ns != start_ns)
		return;
	bpf_seq_write(output, &frame, sizeof(frame));
}

static __always_inline void list_sync(struct seq_file *output, struct task_struct *task, struct task_state *state,
				      __u64 start_ns, __u16 call_type)
{
	struct sync_frame frame = {.header = FRAME_HEADER(struct sys_sync)};

	fill_call(&frame.event, EVENT_SYS_SYNC, task, state, start_ns, 0, 0);
	if (call_type & CALL_UNDESCRIBED)
		omit_description(&frame.event);
	if (*(volatile __u64 *)&state->start_ns != start_ns)
		return;
	bpf_seq_write(output, &frame, sizeof(frame));
}

SEC("iter/task")
int calls_in_progress(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct task_state *state;
	__u16 call_type;
	__u64 start_ns;

	if (!task)
		return 0;
	state = state_of(task);
	if (!state)
		return 0;
	start_ns = *(volatile __u64 *)&state->start_ns;
	if (!start_ns)
		return 0;
	call_type = *(volatile __u16 *)&state->call_type;
	/* If the kernel has skipped the program at the call's end, the task may be in another call or in no call. */
	if (!(call_type & CALL_UNDESCRIBED)) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

		if (regs->orig_ax != state->syscall)
			return 0;
	}
	if ((call_type & ~CALL_UNDESCRIBED) == EVENT_SYS_WRITE)
		list_write(context->meta->seq, task, state, start_ns, call_type);
	else if ((call_type & ~CALL_UNDESCRIBED) == EVENT_SYS_SYNC)
		list_sync(context->meta->seq, task, state, start_ns, call_type);
	return 0;
}

/*
 * Memory for records of the programs that list requests. block_complete has other memory, because it may interrupt a
 * program that lists requests. One element is enough: one thread of the agent runs all of these programs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block_io);
} listed_block_io SEC(".maps");

/*
 * The ring for listed requests. The agent drains it after each run. If a class of entries (see struct element_class)
 * did not fit, the agent requests smaller classes.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
} listed SEC(".maps");

/*
 * One of `classes` subsets of a map's entries. The class of an entry is computed from its key, so the class never
 * changes.
 */
struct element_class {
	__u32 classes;
	__u32 class;
};

struct list_state {
	struct element_class asked;
	/* Number of records that did not fit into the ring. */
	__u32 missed;
};

static __always_inline bool is_in_class(const struct list_state *list, __u64 key)
{
	/* The first operand shows the verifier that the divisor is not 0. */
	return list->asked.classes &&
	       (__u32)(key * 0x9e3779b97f4a7c15ull >> 32) % list->asked.classes == list->asked.class;
}

static __always_inline void list_block_io(struct list_state *list, struct block_io *event,
					  const struct bio_owner *owner, struct gendisk *disk)
{
	__u32 size = describe_request(event, owner, disk);

	event->duration_ns = 0;
	event->result = 0;
	barrier_var(size);
	if (size > sizeof(*event) || bpf_ringbuf_output(&listed, event, size, BPF_RB_NO_WAKEUP))
		list->missed++;
}

/*
 * Returns whether the kernel has freed the request. Such a request has ended without a run of the program at its end.
 */
static __always_inline bool is_freed(struct request *rq)
{
	__u32 references = 1;

	bpf_probe_read_kernel(&references, sizeof(references), &rq->ref);
	return !references;
}

static long list_request(void *map, const __u64 *key, struct request_state *request, struct list_state *list)
{
	struct block_io *event;
	__u32 zero = 0;

	event = bpf_map_lookup_elem(&listed_block_io, &zero);
	if (!event || !is_in_class(list, *key) || request->stage == REQUEST_ENDED || !request->owner.queuer.is_wanted ||
	    is_freed((struct request *)*key))
		return 0;
	event->sector = request->sector;
	event->bytes = request->bytes;
	event->queue_ns = request->issued_ns - request->owner.queuer.queued_ns;
	event->operation = request->operation;
	list_block_io(list, event, &request->owner, BPF_CORE_READ((struct request *)*key, q, disk));
	return 0;
}

/* Lists a bio that waits; several bios may become one request. */
static long list_bio(void *map, const __u64 *key, struct bio_owner *owner, struct list_state *list)
{
	struct block_io *event;
	__u32 zero = 0;
	struct bio *bio;

	event = bpf_map_lookup_elem(&listed_block_io, &zero);
	if (!event || !is_in_class(list, *key) || !owner->queuer.is_wanted)
		return 0;
	bio = (struct bio *)*key;
	event->sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	event->bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	event->queue_ns = UNKNOWN_U64;
	event->operation = block_operation(BPF_CORE_READ(bio, bi_opf), event->bytes);
	list_block_io(list, event, owner, BPF_CORE_READ(bio, bi_bdev, bd_disk));
	return 0;
}

/*
 * Lists the requests and the bios in progress; both programs return the number of records that did not fit into the
 * ring. The programs are not iterators over the elements of a map: such an iterator could change the elements, so a
 * kernel under lockdown may refuse it.
 */
SEC("syscall")
int requests_in_progress(struct element_class *asked)
{
	struct list_state list = {.asked = *asked};

	bpf_for_each_map_elem(&request_states, list_request, &list, 0);
	return list.missed;
}

SEC("syscall")
int bios_in_progress(struct element_class *asked)
{
	struct list_state list = {.asked = *asked};

	bpf_for_each_map_elem(&bio_owners, list_bio, &list, 0);
	return list.missed;
}

#endif
