/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Identifies the owners of the data that a block request carries: for write-back, the owners are the tasks that wrote
 * the data, not the task that queues the request.
 *
 *   a page    the tasks that made it dirty     dirty_page.bpf.h
 *   journal   the tasks that took part in it   journal.bpf.h
 */
#ifndef KREPLAY_ORIGIN_BPF_H
#define KREPLAY_ORIGIN_BPF_H

#include "owner.bpf.h"
#include "process.bpf.h"

/* Fills `origin` with the current time, process and context of the task. */
static __always_inline void origin_of(struct event_origin *origin, struct task_struct *task, struct task_state *state)
{
	struct owner owner;

	origin->time_ns = bpf_ktime_get_boot_ns();
	origin->process_id = process_id_of(task, state, origin->time_ns);
	owner = owner_of(task, state);
	origin->context_id = owner.context_id;
	origin->flags = owner.flags;
	origin->bytes = 0;
}

/* Returns whether the origin has a process or a context: a process has no id if its definition was refused. */
static __always_inline bool is_known(const struct event_origin *origin)
{
	return origin->process_id || origin->context_id;
}

static __always_inline bool is_same_owner(const struct event_origin *a, const struct event_origin *b)
{
	return a->context_id == b->context_id && a->process_id == b->process_id;
}

/*
 * Returns whether another thread or a request may end the origin's context. Such contexts with equal labels may end at
 * different times.
 */
static __always_inline bool is_held_by_reference(const struct event_origin *origin)
{
	return origin->flags & (CONTEXT_INHERITED_THREAD | CONTEXT_HTTP);
}

/*
 * Returns whether both origins have the same label, and therefore belong to one transaction, even if their processes
 * differ.
 */
static __always_inline bool is_same_label(const struct event_origin *a, const struct event_origin *b)
{
	__u64 label;

	/* The label of a lost context is unknown. */
	if (a->context_id <= CONTEXT_LOST || b->context_id <= CONTEXT_LOST || is_held_by_reference(a) ||
	    is_held_by_reference(b))
		return false;
	if (a->context_id == b->context_id)
		return true;
	label = label_of_context(a->context_id);
	return label && label == label_of_context(b->context_id);
}

/*
 * Adds a process with the same label to an origin. The origin then represents several processes, so its process id
 * becomes 0.
 */
static __always_inline void add_process(struct event_origin *to, const struct event_origin *added)
{
	to->process_id = 0;
	to->flags |= added->flags;
	if (added->time_ns > to->time_ns)
		to->time_ns = added->time_ns;
}

#endif
