/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Tracks a recorded system call from its entry to its return. A task is in one call at a time. */
#ifndef KREPLAY_CALL_BPF_H
#define KREPLAY_CALL_BPF_H

#include "file.bpf.h"
#include "filter.bpf.h"
#include "owner.bpf.h"
#include "process.bpf.h"
#include "shed.bpf.h"

/*
 * A record contains kreplay's own number of its call, which is the same on every architecture: CALL_*, from bpf/schema.
 * On x86-64 it equals the kernel's number. Programs for another architecture have to translate the number in
 * keep_call().
 */
_Static_assert(NR_WRITE == CALL_WRITE && NR_PWRITE64 == CALL_PWRITE64 && NR_WRITEV == CALL_WRITEV &&
		   NR_PWRITEV == CALL_PWRITEV && NR_PWRITEV2 == CALL_PWRITEV2 && NR_MSYNC == CALL_MSYNC &&
		   NR_FSYNC == CALL_FSYNC && NR_FDATASYNC == CALL_FDATASYNC && NR_SYNC == CALL_SYNC &&
		   NR_SYNC_FILE_RANGE == CALL_SYNC_FILE_RANGE && NR_SYNCFS == CALL_SYNCFS,
	       "numbers of calls");

/* Bit of task_state.call_type: some fields of the call may still have the values of an earlier call. */
#define CALL_UNDESCRIBED 0x8000

/* Counts the last call of the task as lost: the call has ended, but the kernel did not run call_exit. */
static __always_inline void lose_call(struct task_state *state)
{
	count_loss(state->call_type & ~CALL_UNDESCRIBED, LOSS_END_MISSED);
	state->start_ns = 0;
}

/*
 * Returns whether the task's calls are never recorded: those of the agent, and those of 32-bit programs, in which the
 * same numbers mean other calls.
 */
static __always_inline bool is_foreign(struct task_struct *task)
{
	return task->tgid == agent_tgid || task->thread_info.status & TS_COMPAT;
}

/*
 * Returns whether the filter may want the call, before anything is read for the call: is_wanted_call() decides for the
 * owner.
 */
static __always_inline bool may_be_wanted(struct task_struct *task, __u32 event_type)
{
	struct filter_settings *settings = filter();

	return settings && has_type(settings, event_type) && is_wanted_task(settings, task);
}

/* Counts the task's previous call as lost if its end was missed. Called for a call that is not recorded. */
static __always_inline void skip_call(struct task_struct *task)
{
	struct task_state *state = state_of(task);

	if (state && state->start_ns)
		lose_call(state);
}

/* Returns the state of the task that makes the call, or NULL if there is no memory for the state. */
static __always_inline struct task_state *begin_call(struct task_struct *task, __u32 event_type)
{
	struct task_state *state = new_state_of(task);

	if (!state) {
		count_loss(event_type, LOSS_NO_MEMORY);
		return NULL;
	}
	if (state->start_ns)
		lose_call(state);
	state->call_type = event_type | CALL_UNDESCRIBED;
	barrier();
	state->start_ns = bpf_ktime_get_boot_ns();
	return state;
}

/* Returns whether the filter wants a call that may be wanted, and sets its owner. */
static __always_inline bool is_wanted_call(struct task_struct *task, struct task_state *state, struct owner *owner)
{
	struct filter_settings *settings = filter();

	if (!settings)
		return false;
	/*
	 * The process is defined before owner_of() is called, because the environment of its program may set its
	 * context.
	 */
	process_id_of(task, state, state->start_ns);
	*owner = owner_of(task, state);
	return is_wanted_owner(settings, state->process_id, owner->context_id);
}

static __always_inline void keep_call(struct task_state *state, __u32 syscall, __s32 fd, const struct owner *owner)
{
	state->call_context_id = owner->context_id;
	state->call_flags = owner->flags;
	state->fd = fd;
	state->syscall = syscall;
	barrier();
	state->call_type &= ~CALL_UNDESCRIBED;
}

/*
 * Returns whether the call that ends differs from the kept call; the end of the kept call is then counted as missed.
 * Where tasks are preempted inside programs, the kernel may have skipped the end of the kept call and the entry of the
 * next one. Two calls of the same kind on the same descriptor look the same.
 */
static __always_inline bool is_end_of_another(struct task_state *state, __u32 syscall, __s32 fd)
{
	if (!programs_are_preempted || !state || !state->start_ns || (state->syscall == syscall && state->fd == fd))
		return false;
	lose_call(state);
	return true;
}

/*
 * Ends the task's call and returns its duration, or UNKNOWN_U64 if the call is not recorded. A failed call is recorded
 * even if it was short.
 */
static __always_inline __u64 end_call(struct task_state *state, __u32 event_type, long result, __u64 *start_ns)
{
	__u64 now_ns = bpf_ktime_get_boot_ns(), duration_ns = now_ns - state->start_ns;
	struct filter_settings *settings = filter();

	*start_ns = state->start_ns;
	state->start_ns = 0;
	if (result < 0)
		return duration_ns;
	if (settings && duration_ns < settings->min_duration_ns)
		return UNKNOWN_U64;
	if (is_shed(event_type, duration_ns, now_ns)) {
		/* In this order, because the agent reads the counters first: what it counts is in a sum already. */
		sum_up_shed(state, event_type, *start_ns, duration_ns, result);
		count_loss(event_type, LOSS_SHED);
		return UNKNOWN_U64;
	}
	return duration_ns;
}

/* Fills in the fields that all calls have in common, in a reserved record. */
#define fill_call(event, type, task, state, began_ns, took_ns, returned)                                               \
	({                                                                                                             \
		(event)->event_type = type;                                                                            \
		(event)->cpu = bpf_get_smp_processor_id();                                                             \
		(event)->flags = (state)->call_flags;                                                                  \
		(event)->timestamp_ns = began_ns;                                                                      \
		(event)->duration_ns = took_ns;                                                                        \
		(event)->context_id = (state)->call_context_id;                                                        \
		(event)->process_id = (state)->process_id;                                                             \
		(event)->pid = (task)->tgid;                                                                           \
		(event)->tid = (task)->pid;                                                                            \
		copy_comm((event)->comm, task);                                                                        \
		(event)->result = returned;                                                                            \
		(event)->file_id = (state)->file_id;                                                                   \
		(event)->fd = (state)->fd;                                                                             \
		(event)->syscall = (state)->syscall;                                                                   \
	})

#endif
