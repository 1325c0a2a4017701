/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The context that a task holds: ended when it is replaced or its setter exits. */
#ifndef KREPLAY_CONTEXT_BPF_H
#define KREPLAY_CONTEXT_BPF_H

#include "kreplay.bpf.h"

/* Tells the agent that nobody holds the context any more: what inherited it by reference loses it. */
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

#endif
