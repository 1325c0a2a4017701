/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Follows tasks as they begin, execute a program and end. Contexts are passed on to new tasks: to a thread by
 * reference, to a forked process by copy. A forked process also runs the same program.
 *
 * The hook of new tasks is task_newtask, not sched_process_fork: its clone_flags distinguish threads from processes,
 * and it also fires for io_uring's workers.
 */
#ifndef KREPLAY_TASK_BPF_H
#define KREPLAY_TASK_BPF_H

#include "context.bpf.h"
#include "otel.bpf.h"
#include "process.bpf.h"

/* Defined in http.bpf.h, whose hooks at the same tracepoints are attached after those here. */
int http_task_exit(void);

SEC("tp_btf/task_newtask")
int BPF_PROG(task_new, struct task_struct *child, unsigned long clone_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_state *from = state_of(parent), *leader = from, *to;
	bool thread = clone_flags & CLONE_THREAD;
	__u32 inherited = thread ? CONTEXT_INHERITED_THREAD : CONTEXT_INHERITED_PROCESS;

	/* A thread finds the state of its process on the group leader; a new process gets a copy of it. */
	if (thread)
		leader = NULL;
	else if (parent->pid != parent->tgid)
		leader = state_of(parent->group_leader);
	/* A thread that is created during a request mostly works for other requests afterwards. */
	if (from && thread && from->context_flags & CONTEXT_HTTP)
		from = NULL;
	if (!(from && from->context_id) && !(leader && (leader->process_context_id || leader->program_id)))
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
	if (leader) {
		to->program_id = leader->program_id;
		to->program_exec_id = leader->program_exec_id;
		to->process_context_id = leader->process_context_id;
		to->process_context_flags = leader->process_context_flags | inherited;
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exit, struct task_struct *task)
{
	struct task_state *state = state_of(task);

	if (http_layer)
		http_task_exit();
	if (state && is_own_context(state->context_id, state->context_flags))
		end_context(state->context_id, bpf_ktime_get_boot_ns());
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	struct task_state *state;

	if (task->tgid == agent_tgid)
		return 0;
	if (otel_layer)
		forget_published(task);
	define_program();
	/* A definition that was made during the exec lacks the program's arguments. */
	state = state_of(task);
	if (!state)
		return 0;
	state->process_id = 0;
	/* The agent needs the process before its first request, to decide whether its requests are looked at. */
	if (http_layer)
		process_id_of(task, state, bpf_ktime_get_boot_ns());
	return 0;
}

#endif
