/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whose data a block request carries: of write-back not the task that queues it, but those that wrote.
 *
 *   a page   who made it dirty       dirty_page.bpf.c
 *   journal  who took part in it     journal.bpf.c
 */
#ifndef KREPLAY_ORIGIN_BPF_H
#define KREPLAY_ORIGIN_BPF_H

#include "owner.bpf.h"
#include "process.bpf.h"

/* Who made a folio dirty, and of what: a folio that is used again for another file must not match. */
struct dirtier {
	struct event_origin origin;
	__u64 mapping;
};

/* 512 MiB of folios of 4 KiB. */
struct dirty_folio_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, __u64);
	__type(value, struct dirtier);
};

/* Who took part in a journal's transaction; the count goes on when there are more than slots. */
struct journal_owners {
	__u32 count;
	__u32 reserved;
	struct event_origin owners[ORIGINS_MAX];
};

struct journal_owners_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct journal_owners);
};

extern struct dirty_folio_map dirty_folios SEC(".maps");
extern struct journal_owners_map journal_owners SEC(".maps");

/* What the task does now, as an origin. */
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
