/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Defines, sets and ends the context of a task. A context ends when another context replaces it or when the task that
 * set it exits.
 */
#ifndef KREPLAY_CONTEXT_BPF_H
#define KREPLAY_CONTEXT_BPF_H

#include "budget.bpf.h"
#include "kreplay.bpf.h"

struct context_scratch {
	struct context_definition definition;
	char text[MARKER_SIZE];
};

/* The programs that use this scratch run with preemption off and never in an interrupt. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct context_scratch);
} context_scratch SEC(".maps");

/*
 * Maps a context to the id of the label that it was set with: processes that set the same label have separate contexts.
 * The label is looked up only if there is no room to store each of these processes separately.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} context_labels SEC(".maps");

/* The agent sets a random seed before load, so that nobody can construct two labels with the same id. */
const volatile __u64 label_seed = 1;

#define LABEL_PRIME 0x9fb21c651e98df25ull

static __always_inline __u64 mix(__u64 sum, __u64 word)
{
	sum = (sum ^ word) * LABEL_PRIME;
	return sum ^ sum >> 29;
}

/* Bytes of a label's text that one step adds to its id. */
#define LABEL_STEP_SIZE 64

struct label_sum {
	const struct context_scratch *scratch;
	__u64 sum;
};

static STEP(add_next_words, __u32 i, void *context)
{
	struct label_sum *label = context;
	__u32 size = label->scratch->definition.text_size;

	for (__u32 offset = 0; offset < LABEL_STEP_SIZE; offset += sizeof(__u64)) {
		__u32 at = (i * LABEL_STEP_SIZE & (MARKER_SIZE - 1)) + offset;
		__u64 word = *(__u64 *)&label->scratch->text[at & (MARKER_SIZE - sizeof(__u64))];

		if (at >= size)
			return 1;
		if (size - at < sizeof(word))
			word &= (1ull << (size - at) * 8) - 1;
		label->sum = mix(label->sum, word);
	}
	return 0;
}

/* Returns an id for the label in the scratch, computed from its text, user, outer context and scope. */
__noinline __u64 label_of(const struct context_scratch *scratch)
{
	struct label_sum label = {.scratch = scratch, .sum = label_seed};
	__u64 sum;

	if (!scratch)
		return 0;
	REPEAT(MARKER_SIZE / LABEL_STEP_SIZE, add_next_words, &label);
	sum = mix(label.sum, (__u64)scratch->definition.uid << 32 | scratch->definition.text_size);
	sum = mix(sum, scratch->definition.outer_context_id);
	return mix(sum, scratch->definition.scope);
}

static __always_inline __u64 label_of_context(__u64 context_id)
{
	__u64 *label = bpf_map_lookup_elem(&context_labels, &context_id);

	return label ? *label : 0;
}

/* Announces to the agent that a context has ended: tasks that inherited it by reference lose it. */
static __always_inline void end_context(__u64 context_id, __u64 now_ns)
{
	struct context_end *end = bpf_ringbuf_reserve(&definitions, sizeof(*end), 0);

	if (!end) {
		count_loss(CONTEXT_END, LOSS_RING_FULL);
		return;
	}
	end->definition_type = CONTEXT_END;
	end->reserved = 0;
	end->text_size = 0;
	end->context_id = context_id;
	end->time_ns = now_ns;
	submit(end);
	wake_for_definition();
}

static __always_inline bool is_own_context(__u64 context_id, __u32 flags)
{
	return context_id > CONTEXT_LOST && !(flags & (CONTEXT_INHERITED_PROCESS | CONTEXT_INHERITED_THREAD));
}

/* Returns whether the task's process has been excluded from contexts of HTTP requests: see http.bpf.h. */
static __always_inline bool is_http_misfit(struct task_struct *task, struct task_state *state)
{
	struct task_state *leader = leader_state_of(task, state);

	return leader && leader->http_given_up;
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
	__u64 label;

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
	definition->share = current_share();
	size &= MARKER_SIZE - 1;
	/*
	 * The charge includes the record that later ends the context, because that record is emitted without a check.
	 */
	if (!use_definitions(OTHER_DEFINITIONS, definition->share,
			     sizeof(*definition) + size + sizeof(struct context_end))) {
		count_loss_of(state_of(task), CONTEXT_DEFINITION, LOSS_MARKER_FLOOD);
		return CONTEXT_LOST;
	}
	if (bpf_ringbuf_output(&definitions, scratch, sizeof(*definition) + size, BPF_RB_NO_WAKEUP)) {
		count_loss(CONTEXT_DEFINITION, LOSS_RING_FULL);
		return CONTEXT_LOST;
	}
	wake_for_definition();
	label = label_of(scratch);
	bpf_map_update_elem(&context_labels, &definition->context_id, &label, BPF_ANY);
	return definition->context_id;
}

#endif
