/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Contexts follow the task: to a thread by reference, to a forked process by copy.
 *
 * task_newtask and not sched_process_fork: its clone_flags tell threads from processes, and it also fires for
 * io_uring's workers.
 */
#include "context.bpf.h"

SEC("tp_btf/task_newtask")
int BPF_PROG(task_new, struct task_struct *child, unsigned long clone_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_state *from = state_of(parent), *leader, *to;
	bool thread = clone_flags & CLONE_THREAD;
	__u32 inherited = thread ? CONTEXT_INHERITED_THREAD : CONTEXT_INHERITED_PROCESS;
	__u64 process_context_id = 0;
	__u32 process_context_flags = 0;

	/* A thread finds the default on its leader; a new process takes it along. */
	if (!thread && process_contexts_used) {
		leader = state_of(parent->group_leader);
		if (leader) {
			process_context_id = leader->process_context_id;
			process_context_flags = leader->process_context_flags;
		}
	}
	if (!process_context_id && !(from && from->context_id))
		return 0;
	to = new_state_of(child);
	if (!to) {
		count_loss(CONTEXT_DEFINITION, LOSS_NO_MEMORY);
		return 0;
	}
	if (from && from->context_id) {
		to->context_id = from->context_id;
		to->context_flags = from->context_flags | inherited;
	}
	if (process_context_id) {
		to->process_context_id = process_context_id;
		to->process_context_flags = process_context_flags | inherited;
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exit, struct task_struct *task)
{
	struct task_state *state = state_of(task);

	if (state && is_own_context(state->context_id, state->context_flags))
		end_context(state->context_id, bpf_ktime_get_boot_ns());
	return 0;
}
