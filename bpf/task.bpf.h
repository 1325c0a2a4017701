/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Follows tasks as they begin, execute a program and end. New tasks inherit contexts: a thread by reference, a forked
 * process by copy. A forked process also runs the same program.
 *
 * The hook of new tasks is task_newtask, not sched_process_fork: its clone_flags distinguish threads from processes,
 * and it also fires for io_uring's workers.
 */
#ifndef KREPLAY_TASK_BPF_H
#define KREPLAY_TASK_BPF_H

#include "call.bpf.h"
#include "context.bpf.h"
#include "otel.bpf.h"
#include "process.bpf.h"

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
	/*
	 * A thread that is created during a request does not inherit the request's context, because it usually works
	 * for other requests later.
	 */
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

/* The default context of a process whose group leader ended while other threads were still running. */
struct left_default {
	__u64 start_ns;
	__u64 context_id;
	__u32 flags;
	__u32 reserved;
};

/* The key is a process id. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct left_default);
} left_defaults SEC(".maps");

static __always_inline void leave_default(struct task_struct *task, struct task_state *leader)
{
	struct left_default left = {task->start_boottime, leader->process_context_id, leader->process_context_flags, 0};
	__u32 pid = task->tgid;

	if (bpf_map_update_elem(&left_defaults, &pid, &left, BPF_ANY))
		count_loss(CONTEXT_DEFINITION, LOSS_NO_MEMORY);
}

/*
 * Restores the default context after an exec by a thread that was not the group leader. That thread is the group leader
 * now, with the id and the start time of the previous leader.
 */
static __always_inline void take_default(struct task_struct *task, struct task_state *leader)
{
	__u32 pid = task->tgid;
	struct left_default *left = bpf_map_lookup_elem(&left_defaults, &pid);

	if (!left)
		return;
	if (left->start_ns == task->start_boottime) {
		leader->process_context_id = left->context_id;
		leader->process_context_flags = left->flags;
	}
	bpf_map_delete_elem(&left_defaults, &pid);
}

/*
 * If the thread that executes a program shares the context of an ending thread, makes that context its own. An exec
 * ends all other threads of the process: de_thread(), fs/exec.c.
 */
static __always_inline void pass_on_to_executor(struct task_struct *task, struct task_state *state)
{
	struct task_struct *executor = executor_of(task);
	struct task_state *to;

	if (!executor || executor == task)
		return;
	executor = HOLD_TASK(executor);
	if (!executor)
		return;
	to = state_of(executor);
	if (to && to->context_id == state->context_id) {
		to->context_flags = state->context_flags;
		state->context_id = 0;
	}
	RELEASE_TASK(executor);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exit, struct task_struct *task)
{
	struct task_state *state = state_of(task);

	/* A task returns from a recorded call before it exits, so the end of this call was missed. */
	if (state && state->start_ns)
		lose_call(state);
	if (state && task->pid == task->tgid && state->process_context_id &&
	    LOAD_POINTER(struct task_struct, task, signal)->nr_threads > 1)
		leave_default(task, state);
	if (state && is_own_context(state->context_id, state->context_flags))
		pass_on_to_executor(task, state);
	if (state && is_own_context(state->context_id, state->context_flags))
		end_context(state->context_id, bpf_ktime_get_boot_ns());
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, int old_pid)
{
	struct task_state *state;

	if (task->tgid == agent_tgid)
		return 0;
	if (otel_layer)
		forget_published(task);
	if ((__u32)old_pid != task->pid && process_contexts_used) {
		state = new_state_of(task);
		if (state)
			take_default(task, state);
	}
	define_program();
	/* A definition that was made during the exec lacks the program's arguments, so the process is defined again. */
	state = state_of(task);
	if (!state)
		return 0;
	state->process_id = 0;
	state->process_defined_ns = 0;
	/*
	 * The process is defined before its first request, so that the agent can decide whether its requests are read.
	 */
	if (http_layer)
		process_id_of(task, state, bpf_ktime_get_boot_ns());
	return 0;
}

#endif
