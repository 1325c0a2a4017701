/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records calls that wait until data is on the disk. Each call gets one record, at its return. */
#ifndef KREPLAY_SYS_SYNC_BPF_H
#define KREPLAY_SYS_SYNC_BPF_H

#include "call.bpf.h"

static __always_inline bool is_sync(__u32 id)
{
	return id == NR_FSYNC || id == NR_FDATASYNC || id == NR_MSYNC || id == NR_SYNC || id == NR_SYNC_FILE_RANGE ||
	       id == NR_SYNCFS;
}

static __always_inline bool has_fd(__u32 id)
{
	return id != NR_MSYNC && id != NR_SYNC;
}

static __always_inline void begin_sync(struct pt_regs *regs, __u32 id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner owner = {};
	struct task_state *state;

	if (is_foreign(task))
		return;
	if (!may_be_wanted(task, EVENT_SYS_SYNC)) {
		skip_call(task);
		return;
	}
	state = begin_call(task, EVENT_SYS_SYNC);
	if (!state)
		return;
	if (!is_wanted_call(task, state, &owner)) {
		state->start_ns = 0;
		return;
	}
	look_up_file(has_fd(id) ? file_of(task, regs->di) : NULL, state, state->start_ns);
	keep_call(state, id, has_fd(id) ? regs->di : -1, &owner);
}

static __always_inline void end_sync(struct pt_regs *regs, __u32 id, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	struct sys_sync *event;
	__u64 start_ns, duration_ns;

	if (is_end_of_another(state, id, has_fd(id) ? regs->di : -1))
		return;
	if (!state || !state->start_ns || state->call_type != EVENT_SYS_SYNC)
		return;
	duration_ns = end_call(state, EVENT_SYS_SYNC, result, &start_ns);
	if (duration_ns == UNKNOWN_U64)
		return;
	event = reserve_event(EVENT_SYS_SYNC, struct sys_sync);
	if (!event)
		return;
	fill_call(event, EVENT_SYS_SYNC, task, state, start_ns, duration_ns, result);
	submit(event);
	wake_for_event(start_ns + duration_ns);
}

#endif
