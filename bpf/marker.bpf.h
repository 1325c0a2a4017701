/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Marker lines: `KREPLAY1 txn=order-8812` written to /dev/null names the transaction of what the thread does next.
 * The kernel side only sees that a line is one and whom it is for; the agent parses it.
 */
#ifndef KREPLAY_MARKER_BPF_H
#define KREPLAY_MARKER_BPF_H

#include "context.bpf.h"

/* "KREPLAY1", " proc ", " end" as little-endian numbers. */
#define MARKER_MAGIC 0x3159414c5045524bull
#define MARKER_PROC 0x20636f727020ull
#define MARKER_PROC_MASK 0xffffffffffffull
#define MARKER_END 0x646e6520ull
#define MARKER_END_MASK 0xffffffffull
#define MARKER_SIZE_MIN 9

struct context_scratch {
	struct context_definition definition;
	char text[MARKER_SIZE];
};

/* Only sys_enter uses it, which runs with preemption off and never in an interrupt. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct context_scratch);
} context_scratch SEC(".maps");

static __always_inline __u64 define_context(struct task_struct *task, const void *text, __u32 size, bool process,
					    __u64 now_ns)
{
	struct context_definition *definition;
	struct context_scratch *scratch;
	__u32 zero = 0;

	scratch = bpf_map_lookup_elem(&context_scratch, &zero);
	if (!scratch)
		return CONTEXT_LOST;
	definition = &scratch->definition;
	__builtin_memset(definition, 0, sizeof(*definition));
	definition->definition_type = CONTEXT_DEFINITION;
	definition->text_size = size;
	definition->context_id = new_id();
	definition->time_ns = now_ns;
	definition->pid = task->tgid;
	definition->tid = task->pid;
	definition->uid = bpf_get_current_uid_gid();
	definition->scope = process;
	size &= MARKER_SIZE - 1;
	if (bpf_probe_read_user(scratch->text, size, text) ||
	    bpf_ringbuf_output(&definitions, scratch, sizeof(*definition) + size, BPF_RB_NO_WAKEUP)) {
		count_loss(CONTEXT_DEFINITION, LOSS_RING_FULL);
		return CONTEXT_LOST;
	}
	return definition->context_id;
}

/* " end", and then nothing or a line feed. */
static __always_inline bool is_end(__u64 rest)
{
	char next = rest >> 32;

	return (rest & MARKER_END_MASK) == MARKER_END && (!next || next == '\n');
}

/* Only called for text that begins with the magic and goes to /dev/null. */
static __always_inline void apply_marker(struct task_struct *task, struct task_state *state, const void *text,
					 __u32 size, __u64 now_ns)
{
	__u64 body = 0, rest = 0, id = 0;
	bool process;

	bpf_probe_read_user(&body, size < 16 ? (size - 8) & 7 : 8, text + 8);
	process = (body & MARKER_PROC_MASK) == MARKER_PROC;
	if (!process)
		rest = body;
	else if (size > 13)
		/* " proc end": the blank before "end" is the last of MARKER_PROC. */
		bpf_probe_read_user(&rest, size < 21 ? (size - 13) & 7 : 8, text + 13);
	if (!is_end(rest))
		id = define_context(task, text, size, process, now_ns);
	if (!process) {
		set_context(state, id, now_ns);
		return;
	}
	process_contexts_used = 1;
	if (task->pid != task->tgid)
		state = new_state_of(task->group_leader);
	if (!state)
		return;
	/* Nobody holds a process's default by reference, so its end need not be told. */
	state->process_context_id = id;
	state->process_context_flags = 0;
}

#endif
