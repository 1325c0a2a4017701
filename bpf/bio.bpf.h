/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* State kept per bio from its queueing until its request is issued. */
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
		/* The filter's decision when the bio was queued. */
		__u32 is_wanted;
		char comm[16];
	} queuer;
	/* Number of slots in use. */
	__u32 origin_count;
	/* There are more owners than slots, or some are unknown. */
	__u32 has_others;
	struct event_origin origins[ORIGIN_SLOTS];
};

/*
 * Bios that wait for the issue of their request. This is not an LRU map, which would drop the owner of a bio that still
 * waits without counting it.
 */
struct bio_owner_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct bio_owner);
};

extern struct bio_owner_map bio_owners SEC(".maps");

/* Adds bytes to an owner's share. Defined in bio.bpf.c. */
int add_origin(struct bio_owner *to, const struct event_origin *added, __u32 bytes);

#endif
