/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Recognizes marker lines: `KREPLAY1 txn=order-8812` written to /dev/null names the transaction that the thread works
 * for next. The kernel side only detects a marker and its scope; the agent parses it.
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

static __always_inline __u64 define_marker(struct task_struct *task, const void *text, __u32 size, bool process,
					   __u64 outer_context_id, __u64 now_ns)
{
	struct context_scratch *scratch;
	__u32 zero = 0;

	scratch = bpf_map_lookup_elem(&context_scratch, &zero);
	if (!scratch)
		return CONTEXT_LOST;
	size &= MARKER_SIZE - 1;
	if (bpf_probe_read_user(scratch->text, size, text)) {
		count_loss(CONTEXT_DEFINITION, LOSS_MARKER_UNREADABLE);
		return CONTEXT_LOST;
	}
	return define_context(task, scratch, size, process ? SCOPE_PROCESS : SCOPE_THREAD, outer_context_id, now_ns);
}

/* Returns whether the text is " end", with or without a line feed after it. */
static __always_inline bool is_end(__u64 rest)
{
	char next = rest >> 32;

	return (rest & MARKER_END_MASK) == MARKER_END && (!next || next == '\n');
}

/* Applies a marker. The caller has checked that the text begins with MARKER_MAGIC and goes to /dev/null. */
static __always_inline void apply_marker(struct task_struct *task, struct task_state *state, const void *text,
					 __u32 size, __u64 now_ns)
{
	struct task_state *leader = state;
	__u64 body = 0, rest = 0, id = 0, outer_id = 0;
	bool process;

	bpf_probe_read_user(&body, size < 16 ? (size - 8) & 7 : 8, text + 8);
	process = (body & MARKER_PROC_MASK) == MARKER_PROC;
	if (!process)
		rest = body;
	else if (size > 13)
		/* In " proc end", the blank before "end" is the last byte of MARKER_PROC. */
		bpf_probe_read_user(&rest, size < 21 ? (size - 13) & 7 : 8, text + 13);
	if (task->pid != task->tgid && (process || process_contexts_used))
		leader = process ? new_state_of(task->group_leader) : state_of(task->group_leader);
	if (state->context_flags & CONTEXT_HTTP && !is_http_misfit(task, state))
		outer_id = state->context_id;
	else if (leader)
		outer_id = leader->process_context_id;
	if (!is_end(rest))
		id = define_marker(task, text, size, process, outer_id, now_ns);
	if (!process) {
		state->http_labelled = state->http_open;
		set_context(state, id, now_ns);
		return;
	}
	process_contexts_used = 1;
	if (!leader)
		return;
	/*
	 * No task has a reference to the default context of a process: new processes copy it, and threads read it from
	 * the group leader at each event. So its end is not announced.
	 */
	leader->process_context_id = id;
	leader->process_context_flags = 0;
}

#endif
