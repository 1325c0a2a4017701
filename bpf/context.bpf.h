/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Defines, sets and ends the context that a task holds. It ends when it is replaced or when the task that set it exits.
 */
#ifndef KREPLAY_CONTEXT_BPF_H
#define KREPLAY_CONTEXT_BPF_H

#include "budget.bpf.h"
#include "kreplay.bpf.h"

struct context_scratch {
	struct context_definition definition;
	char text[MARKER_SIZE];
};

/* The programs that use it run with preemption off and never in an interrupt. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct context_scratch);
} context_scratch SEC(".maps");

/* Announces to the agent that a context has ended: tasks that inherited it by reference lose it. */
static __always_inline void end_context(__u64 context_id, __u64 now_ns)
{
	struct context_end *end = reserve(definitions, CONTEXT_END, struct context_end);

	if (!end)
		return;
	end->definition_type = CONTEXT_END;
	end->reserved = 0;
	end->text_size = 0;
	end->context_id = context_id;
	end->time_ns = now_ns;
	submit(end);
}

static __always_inline bool is_own_context(__u64 context_id, __u32 flags)
{
	return context_id > CONTEXT_LOST && !(flags & (CONTEXT_INHERITED_PROCESS | CONTEXT_INHERITED_THREAD));
}

static __always_inline void set_context(struct task_state *state, __u64 context_id, __u64 now_ns)
{
	if (is_own_context(state->context_id, state->context_flags))
		end_context(state->context_id, now_ns);
	state->context_id = context_id;
	state->context_flags = 0;
}

/* Emits the context in the scratch with a new id and returns that id, or CONTEXT_LOST if it cannot be stored. */
static __always_inline __u64 define_context(struct task_struct *task, struct context_scratch *scratch, __u32 size,
					    __u32 scope, __u64 outer_context_id, __u64 now_ns)
{
	struct context_definition *definition = &scratch->definition;

	__builtin_memset(definition, 0, sizeof(*definition));
	definition->definition_type = CONTEXT_DEFINITION;
	definition->text_size = size;
	definition->context_id = new_id();
	definition->time_ns = now_ns;
	definition->pid = task->tgid;
	definition->tid = task->pid;
	definition->uid = bpf_get_current_uid_gid();
	definition->scope = scope;
	definition->outer_context_id = outer_context_id;
	definition->user = current_user();
	size &= MARKER_SIZE - 1;
	/* The charge includes the record of the context's end, which is never refused. */
	if (!use_definitions(definition->user, sizeof(*definition) + size + sizeof(struct context_end))) {
		count_loss(CONTEXT_DEFINITION, LOSS_MARKER_FLOOD);
		return CONTEXT_LOST;
	}
	if (bpf_ringbuf_output(&definitions, scratch, sizeof(*definition) + size, BPF_RB_NO_WAKEUP)) {
		count_loss(CONTEXT_DEFINITION, LOSS_RING_FULL);
		return CONTEXT_LOST;
	}
	return definition->context_id;
}

#endif
