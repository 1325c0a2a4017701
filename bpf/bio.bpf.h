/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is remembered of a bio from its queueing to the issue of its request. */
#ifndef KREPLAY_BIO_BPF_H
#define KREPLAY_BIO_BPF_H

#include "origin.bpf.h"

/* The task that queued a bio, and the owners of its data. */
struct bio_owner {
	struct bio_queuer {
		__u64 queued_ns;
		__u64 context_id;
		__u64 process_id;
		__u64 cgroup_id;
		__u32 flags;
		__u32 pid;
		__u32 tid;
		/* By the filter, when it was queued. */
		__u32 is_wanted;
		char comm[16];
	} queuer;
	/* Slots in use. */
	__u32 origin_count;
	/* There are more owners, or some that are not known. */
	__u32 has_others;
	struct event_origin origins[ORIGIN_SLOTS];
};

/*
 * Bios that wait for the issue of their request. Not an LRU map: that would drop the owner of one that still waits,
 * and nothing would count it.
 */
struct bio_owner_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct bio_owner);
};

extern struct bio_owner_map bio_owners SEC(".maps");

/* Adds bytes to an owner's share: bio.bpf.c. */
int add_origin(struct bio_owner *to, const struct event_origin *added, __u32 bytes);

#endif
