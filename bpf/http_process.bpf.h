/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Tracks the processes whose requests are read. The agent selects these processes, and the programs follow them when
 * they fork and execute.
 */
#ifndef KREPLAY_HTTP_PROCESS_BPF_H
#define KREPLAY_HTTP_PROCESS_BPF_H

#include "context.bpf.h"

/* Entry of a selected process; the key is its thread group. */
struct http_process {
	/* Time of CLOCK_BOOTTIME by which the process had started. A process that started later has reused the id. */
	__u64 started_ns;
	/*
	 * Exec count of the selected program. Ignored if `any_exec` is set, which means that the agent did not know the
	 * count.
	 */
	__u32 exec_id;
	__u32 any_exec;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct http_process);
} http_processes SEC(".maps");

/* Returns the entry of the task's process, if the agent selected the program that it runs. */
static __always_inline struct http_process *watched_process(struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct http_process *process = bpf_map_lookup_elem(&http_processes, &tgid);

	if (!process || leader_of(task)->start_boottime > process->started_ns)
		return NULL;
	return process->any_exec || process->exec_id == (__u32)task->self_exec_id ? process : NULL;
}

static __always_inline bool is_watched(struct task_struct *task)
{
	return watched_process(task);
}

/* Set to 1 when a process is created during a request. */
__u32 http_children_used = 0;

static __always_inline bool holds_request(struct task_state *state)
{
	return state->context_id && state->context_flags & CONTEXT_HTTP;
}

/* Copies the entry of a parent to its forked process, which serves requests in the same way. */
SEC("tp_btf/task_newtask")
int BPF_PROG(http_process_new, struct task_struct *child, unsigned long clone_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct http_process *process = watched_process(parent), copy;
	__u32 tgid = child->tgid;
	struct task_state *state;

	if (clone_flags & CLONE_THREAD)
		return 0;
	if (process) {
		copy = *process;
		copy.started_ns = child->start_boottime;
		bpf_map_update_elem(&http_processes, &tgid, &copy, BPF_ANY);
	}
	state = state_of(parent);
	if (state && holds_request(state))
		http_children_used = 1;
	return 0;
}

/*
 * Deletes the entry of a process that executes a program. The agent has to select the process again, because the new
 * program may serve requests in another way. Only the executing thread is left, so only its state is reset.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(http_process_exec, struct task_struct *task)
{
	struct task_state *state = state_of(task);
	__u32 tgid = task->tgid;

	bpf_map_delete_elem(&http_processes, &tgid);
	if (!state)
		return 0;
	state->http_event_loop = 0;
	state->http_misfits = 0;
	state->http_proofs = 0;
	state->http_given_up = 0;
	return 0;
}

#endif
