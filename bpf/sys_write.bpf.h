/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records the calls of the write family. Each call gets one record, at its return. */
#ifndef KREPLAY_SYS_WRITE_BPF_H
#define KREPLAY_SYS_WRITE_BPF_H

#include "call.bpf.h"
#include "marker.bpf.h"

#define IOV_MAX 1024
#define IOV_STEP 8

struct user_iovec {
	__u64 base, size;
};

static __always_inline bool is_write(__u32 id)
{
	return id == NR_WRITE || id == NR_PWRITE64 || id == NR_WRITEV || id == NR_PWRITEV || id == NR_PWRITEV2;
}

/*
 * Returns the number of bytes in the `count` parts of a user's iovec; UNKNOWN_U64 if the iovec is too long or cannot
 * be read. The function is not inlined, so that the verifier walks its loop once instead of once for every path to the
 * call.
 */
__noinline __u64 iovec_bytes(__u64 iov, __u64 count)
{
	struct user_iovec part[IOV_STEP] = {};
	__u64 sum = 0, size;
	__u32 first = 0;

	if (count > IOV_MAX)
		return UNKNOWN_U64;
	/*
	 * The loop takes only whole steps: after a step of unknown size, the verifier would walk the rest of the loop
	 * once more.
	 */
	for (; first < IOV_MAX && first + IOV_STEP <= count; first += IOV_STEP) {
		if (bpf_probe_read_user(part, sizeof(part), (void *)(iov + first * sizeof(*part))))
			return UNKNOWN_U64;
		for (int i = 0; i < IOV_STEP; i++)
			sum += part[i].size;
	}
	size = (count - first) * sizeof(*part);
	/*
	 * Without this barrier, clang would use another register than the one that the comparison checks, and older
	 * verifiers would not know its bounds.
	 */
	barrier_var(size);
	if (size > sizeof(part))
		return UNKNOWN_U64;
	__builtin_memset(part, 0, sizeof(part));
	if (bpf_probe_read_user(part, size, (void *)(iov + first * sizeof(*part))))
		return UNKNOWN_U64;
	for (int i = 0; i < IOV_STEP; i++)
		sum += part[i].size;
	return sum;
}

static __always_inline bool is_marker_size(__u64 size)
{
	return marker_layer && size >= MARKER_SIZE_MIN && size < MARKER_SIZE;
}

/* Returns whether a write may be a marker, before its text is read. */
static __always_inline bool may_be_marker(struct file *file, __u64 size)
{
	return is_marker_size(size) && file && is_dev_null(file);
}

/*
 * Returns whether a write is a marker: a marker is the whole text of one write to /dev/null, or the first part of a
 * vector.
 */
static __always_inline bool is_marker(struct file *file, struct task_state *state, const void *text, __u64 now_ns)
{
	__u64 magic = 0;

	if (!file || !is_dev_null(file))
		return false;
	if (!bpf_probe_read_user(&magic, sizeof(magic), text))
		return magic == MARKER_MAGIC;
	/* The text may be a marker in a page that is not present, and /dev/null never faults it in. */
	count_loss(CONTEXT_DEFINITION, LOSS_MARKER_UNREADABLE);
	set_context(state, CONTEXT_LOST, now_ns);
	return false;
}

/* Finds the first text of a write: its buffer, or the first part of its vector. */
static __always_inline void first_text(struct pt_regs *regs, __u32 id, const void **text, __u64 *size)
{
	struct user_iovec first = {};

	*text = (const void *)regs->si;
	*size = regs->dx;
	if (id == NR_WRITE || id == NR_PWRITE64)
		return;
	if (*size && bpf_probe_read_user(&first, sizeof(first), *text)) {
		/*
		 * The text may be a marker, but cannot be found without the vector. For NULL, is_marker() counts a
		 * loss.
		 */
		*text = NULL;
		*size = MARKER_SIZE_MIN;
		return;
	}
	*text = (const void *)first.base;
	*size = first.size;
}

/* struct iovec of a 32-bit program, or of a 64-bit program that makes 32-bit calls. */
struct user_iovec32 {
	__u32 base, size;
};

static __always_inline bool is_write32(__u32 id)
{
	return id == NR32_WRITE || id == NR32_PWRITE64 || id == NR32_WRITEV || id == NR32_PWRITEV ||
	       id == NR32_PWRITEV2;
}

static __always_inline bool is_compat(struct task_struct *task)
{
	return task->thread_info.status & TS_COMPAT;
}

/*
 * Applies the marker of a 32-bit write. 32-bit calls are not recorded, but a label that such a call sets or removes
 * applies to 64-bit child processes as well.
 */
static __always_inline void mark_by_write32(struct task_struct *task, struct pt_regs *regs, __u32 id)
{
	__u64 text = (__u32)regs->cx, size = (__u32)regs->dx, now_ns;
	struct user_iovec32 first = {};
	struct task_state *state;

	if (id != NR32_WRITE && id != NR32_PWRITE64 && size) {
		bool is_unreadable = bpf_probe_read_user(&first, sizeof(first), (void *)text);

		text = is_unreadable ? 0 : first.base;
		size = is_unreadable ? MARKER_SIZE_MIN : first.size;
	}
	if (!is_marker_size(size))
		return;
	state = new_state_of(task);
	if (!state)
		return;
	now_ns = bpf_ktime_get_boot_ns();
	if (!is_marker(file_of(task, regs->bx), state, (const void *)text, now_ns))
		return;
	barrier_var(size);
	apply_marker(task, state, (const void *)text, size, now_ns);
}

static __always_inline void begin_write32(struct pt_regs *regs, __u32 id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state;

	if (!is_compat(task) || task->tgid == agent_tgid)
		return;
	if (programs_are_preempted) {
		state = new_state_of(task);
		if (state)
			state->write_seen = 1;
	}
	mark_by_write32(task, regs, id);
}

/*
 * Applies the marker of a write at its exit. At the write's entry, the kernel skipped the program, because another task
 * was preempted inside the program: see kernel_compat.bpf.h. The write is not recorded, but if its marker were ignored,
 * the thread would keep a label that it has removed. The thread has made no other call since the entry, so the exit is
 * early enough.
 */
static __always_inline void catch_up_marker(struct task_struct *task, struct pt_regs *regs, __u32 id, long result)
{
	struct task_state *state;
	const void *text;
	__u64 size, now_ns;

	/* A write that was denied or failed has written no marker. */
	if (result < 0 || task->tgid == agent_tgid || task->thread_info.status & TS_COMPAT)
		return;
	first_text(regs, id, &text, &size);
	if (!is_marker_size(size))
		return;
	state = new_state_of(task);
	if (!state)
		return;
	now_ns = bpf_ktime_get_boot_ns();
	if (!is_marker(file_of(task, regs->di), state, text, now_ns))
		return;
	barrier_var(size);
	apply_marker(task, state, text, size, now_ns);
}

static __always_inline bool was_seen_to_begin(struct task_state *state)
{
	bool seen = state && state->write_seen;

	if (seen)
		state->write_seen = 0;
	return seen;
}

/* Does the same as catch_up_marker() for a 32-bit call; nothing else is recorded for such a call. */
static __always_inline void end_write32(struct pt_regs *regs, __u32 id, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!is_compat(task) || task->tgid == agent_tgid)
		return;
	if (!was_seen_to_begin(state_of(task)) && result >= 0)
		mark_by_write32(task, regs, id);
}

static __always_inline void end_write(struct pt_regs *regs, __u32 id, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	struct sys_write *event;
	__u64 start_ns, duration_ns;

	if (programs_are_preempted) {
		bool is_another = is_end_of_another(state, id, regs->di);

		if (!was_seen_to_begin(state) || is_another) {
			catch_up_marker(task, regs, id, result);
			return;
		}
	}
	if (!state || !state->start_ns || state->call_type != EVENT_SYS_WRITE)
		return;
	duration_ns = end_call(state, EVENT_SYS_WRITE, result, &start_ns);
	if (duration_ns == UNKNOWN_U64)
		return;
	event = reserve_event(EVENT_SYS_WRITE, struct sys_write);
	if (!event)
		return;
	fill_call(event, EVENT_SYS_WRITE, task, state, start_ns, duration_ns, result);
	event->bytes_requested = state->bytes_requested;
	submit(event);
	wake_for_event(start_ns + duration_ns);
}

static __always_inline void begin_write(struct pt_regs *regs, __u32 id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner owner = {};
	struct task_state *state;
	const void *text;
	struct file *file;
	bool is_wanted, is_vector;
	__u64 size;

	if (is_foreign(task))
		return;
	is_wanted = may_be_wanted(task, EVENT_SYS_WRITE);
	first_text(regs, id, &text, &size);
	file = file_of(task, regs->di);
	if (!is_wanted && !programs_are_preempted && !may_be_marker(file, size)) {
		skip_call(task);
		return;
	}
	state = begin_call(task, EVENT_SYS_WRITE);
	if (!state)
		return;
	if (programs_are_preempted)
		state->write_seen = 1;
	is_vector = id != NR_WRITE && id != NR_PWRITE64;
	state->bytes_requested = is_vector ? UNKNOWN_U64 : regs->dx;
	is_wanted = is_wanted && is_wanted_call(task, state, &owner);
	/*
	 * A marker is applied even if the filter does not want the call: the work that the marker labels may be wanted.
	 */
	if (is_marker_size(size) && is_marker(file, state, text, state->start_ns)) {
		/*
		 * Without this barrier, clang would omit later masks, because it knows the bounds of the size.
		 * Verifiers before 6.3 have lost those bounds and need the masks.
		 */
		barrier_var(size);
		apply_marker(task, state, text, size, state->start_ns);
		is_wanted = false;
	}
	if (!is_wanted) {
		state->start_ns = 0;
		return;
	}
	if (is_vector)
		state->bytes_requested = iovec_bytes(regs->si, regs->dx);
	/* The file is looked up only for a recorded call, because the file's name goes into the recording. */
	look_up_file(file, state, state->start_ns);
	keep_call(state, id, regs->di, &owner);
}

#endif
