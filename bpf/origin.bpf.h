/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Identifies the owners of the data that a block request carries: for write-back, these are not the task that queues
 * it, but the tasks that wrote.
 *
 *   a page    the tasks that made it dirty     dirty_page.bpf.c
 *   journal   the tasks that took part in it   journal.bpf.c
 */
#ifndef KREPLAY_ORIGIN_BPF_H
#define KREPLAY_ORIGIN_BPF_H

#include "owner.bpf.h"
#include "process.bpf.h"

/*
 * The task that made a page dirty, and the page's place in its file: memory that is reused for another page of a file
 * must not match.
 */
struct dirtier {
	struct event_origin origin;
	__u64 mapping;
	__u64 index;
	/* Number of its bytes whose write-back is queued. */
	__u32 queued_bytes;
	/* Number of owners known to have written to it, up to DIRTIERS_MAX; the second one is in dirty_with. */
	__u32 count;
	/* Device on which its write-back is queued. */
	__u32 device;
	/* It was written to while its write-back was in progress and not yet queued. */
	__u32 is_dirty_again;
};

#define DIRTIERS_MAX 3

/*
 * Pages that wait for their write-back. The key is the address of a page, or that of a large folio | 1. The agent sizes
 * the map for a part of the host's memory.
 */
struct dirty_page_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, __u64);
	__type(value, struct dirtier);
};

/* Pages whose write-back is queued: a mirror writes them again for each of its other disks. */
struct queued_page_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct dirtier);
};

/* The second owner that wrote to a page before its write-back. */
struct dirty_with_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct event_origin);
};

/* Owners that took part in a journal's transaction; the count continues past the number of slots. */
struct journal_owners {
	__u64 first_ns;
	__u32 count;
	/* Kernel threads took part, on behalf of the tasks whose data they write. */
	__u32 others;
	struct event_origin owners[ORIGIN_SLOTS];
};

struct journal_owners_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct journal_owners);
};

extern struct dirty_page_map dirty_pages SEC(".maps");
extern struct queued_page_map queued_pages SEC(".maps");
extern struct dirty_with_map dirty_with SEC(".maps");
extern struct journal_owners_map journal_owners SEC(".maps");

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
