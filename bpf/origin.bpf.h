/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Identifies the owners of the data that a block request carries: for write-back, these are not the task that queues
 * it, but the tasks that wrote.
 *
 *   a page    the tasks that made it dirty     dirty_page.bpf.h
 *   journal   the tasks that took part in it   journal.bpf.h
 */
#ifndef KREPLAY_ORIGIN_BPF_H
#define KREPLAY_ORIGIN_BPF_H

#include "owner.bpf.h"
#include "process.bpf.h"

/* Describes the current work of the task as an origin. */
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

static __always_inline bool is_same_owner(const struct event_origin *a, const struct event_origin *b)
{
	return a->context_id == b->context_id && a->process_id == b->process_id;
}

#endif
