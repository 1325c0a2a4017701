/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Lists what has begun and not ended: the calls that tasks are in, and the block requests that wait or that a device
 * has. The agent runs these iterators now and then (libbpf-ts: iterate()); they emit the records that the events will
 * be, without their ends, as frames like those of a drained ring.
 */
#ifndef KREPLAY_IN_PROGRESS_BPF_H
#define KREPLAY_IN_PROGRESS_BPF_H

#include "block_io.bpf.h"
#include "call.bpf.h"

/* u32 length, u32 zero */
#define FRAME_HEADER(type) ((__u64)sizeof(type))

struct write_frame {
	__u64 header;
	struct sys_write event;
};

struct sync_frame {
	__u64 header;
	struct sys_sync event;
};

struct block_frame {
	__u64 header;
	struct block_io event;
};

/*
 * The program of a call's entry may be interrupted at any place: until it has described the call, it is not known whose
 * the call is, nor whether the filter wants it.
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
	/* The call has ended meanwhile, and perhaps another one has begun. */
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
	/* If the kernel has skipped the program of the call's end, the task is in another call, or in none. */
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

/* The programs of a request's end may interrupt an iterator, so it has memory of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block_frame);
} block_frames SEC(".maps");

static __always_inline void list_block_io(struct seq_file *output, struct block_frame *frame,
					  const struct bio_owner *owner, struct gendisk *disk)
{
	__u32 size = describe_request(&frame->event, owner, disk);

	frame->event.duration_ns = 0;
	frame->event.result = 0;
	frame->header = size;
	size += sizeof(frame->header);
	barrier_var(size);
	if (size <= sizeof(*frame))
		bpf_seq_write(output, frame, size);
}

/* Whether the kernel has freed the request: it has ended, and the program of its end did not run. */
static __always_inline bool is_freed(struct request *rq)
{
	__u32 references = 1;

	bpf_probe_read_kernel(&references, sizeof(references), &rq->ref);
	return !references;
}

SEC("iter/bpf_map_elem")
int requests_in_progress(struct bpf_iter__bpf_map_elem *context)
{
	struct request_state *request;
	struct block_frame *frame;
	/* The context is read once: the verifier takes each read of it for another pointer. */
	__u64 *element = context->key, key;
	__u32 zero = 0;

	if (!element)
		return 0;
	key = *element;
	request = bpf_map_lookup_elem(&request_states, &key);
	frame = bpf_map_lookup_elem(&block_frames, &zero);
	if (!request || !frame || request->stage == REQUEST_ENDED || !request->owner.queuer.is_wanted ||
	    is_freed((struct request *)key))
		return 0;
	frame->event.sector = request->sector;
	frame->event.bytes = request->bytes;
	frame->event.queue_ns = request->issued_ns - request->owner.queuer.queued_ns;
	frame->event.operation = request->operation;
	list_block_io(context->meta->seq, frame, &request->owner, BPF_CORE_READ((struct request *)key, q, disk));
	return 0;
}

/* Bios that wait: several of them may become one request. */
SEC("iter/bpf_map_elem")
int bios_in_progress(struct bpf_iter__bpf_map_elem *context)
{
	struct block_frame *frame;
	struct bio_owner *owner;
	__u64 *element = context->key, key;
	__u32 zero = 0;
	struct bio *bio;

	if (!element)
		return 0;
	key = *element;
	owner = bpf_map_lookup_elem(&bio_owners, &key);
	frame = bpf_map_lookup_elem(&block_frames, &zero);
	if (!owner || !frame || !owner->queuer.is_wanted)
		return 0;
	bio = (struct bio *)key;
	frame->event.sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	frame->event.bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	frame->event.queue_ns = UNKNOWN_U64;
	frame->event.operation = block_operation(BPF_CORE_READ(bio, bi_opf), frame->event.bytes);
	list_block_io(context->meta->seq, frame, owner, BPF_CORE_READ(bio, bi_bdev, bd_disk));
	return 0;
}

#endif
