/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Determines the context that an event of the current task belongs to. */
#ifndef KREPLAY_OWNER_BPF_H
#define KREPLAY_OWNER_BPF_H

#include "otel.bpf.h"

/* The context that an event belongs to, and the way in which the context was determined (CONTEXT_* flags). */
struct owner {
	__u64 context_id;
	__u32 flags;
};

/* Returns the context that a marker, an HTTP request or the environment of the task's program gives to the task. */
static __always_inline struct owner own_or_process_context(struct task_struct *task, struct task_state *state)
{
	struct owner owner = {state->context_id, state->context_flags};
	struct task_state *leader;

	if (owner.flags & CONTEXT_HTTP && is_http_misfit(task, state))
		owner = (struct owner){};
	if (owner.context_id || !process_contexts_used)
		return owner;
	leader = leader_state_of(task, state);
	if (leader && leader->process_context_id) {
		owner.context_id = leader->process_context_id;
		owner.flags = leader->process_context_flags | CONTEXT_PROCESS_DEFAULT;
	}
	return owner;
}

static __always_inline struct owner owner_of(struct task_struct *task, struct task_state *state)
{
	struct owner owner = own_or_process_context(task, state);
	struct otel_thread *thread;

	if (!publishes_threads(task))
		return owner;
	/*
	 * A context that comes from a request or from the thread that created this thread is not passed as the outer
	 * context, because it may end before the context of the thread's record.
	 */
	if (!read_thread_record(owner.flags & (CONTEXT_INHERITED_THREAD | CONTEXT_HTTP) ? 0 : owner.context_id))
		return owner;
	thread = bpf_task_storage_get(&otel_threads, task, 0, 0);
	if (thread) {
		owner.context_id = thread->context_id;
		owner.flags = CONTEXT_OTEL;
	}
	return owner;
}

#endif
