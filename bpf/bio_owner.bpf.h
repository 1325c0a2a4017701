/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* State kept per bio from its queueing until its request is issued. */
#ifndef KREPLAY_BIO_OWNER_BPF_H
#define KREPLAY_BIO_OWNER_BPF_H

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
	/* There are more owners than slots, or some owners are unknown. */
	__u32 has_others;
	struct event_origin origins[ORIGIN_SLOTS];
};

/*
 * Bios that wait until their request is issued. The map is not an LRU map, because an LRU map would drop the owner of a
 * waiting bio without counting the loss.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct bio_owner);
} bio_owners SEC(".maps");

/*
 * Total number of entries of bio_owners and request_states. The agent reads it to skip empty maps, because searching
 * empty maps of these sizes takes 0.7 ms.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} requests_known SEC(".maps");

static __always_inline void count_requests_known(__s64 change)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&requests_known, &zero);

	if (count)
		__sync_fetch_and_add(count, change);
}

static __always_inline void forget_bio(const __u64 *key)
{
	if (!bpf_map_delete_elem(&bio_owners, key))
		count_requests_known(-1);
}

/*
 * Adds bytes to an owner's share. If no slot is free, processes of the same transaction share a slot. This is a global
 * function, so that it is verified once instead of at each of its calls.
 */
__noinline int add_origin(struct bio_owner *to, const struct event_origin *added, __u32 bytes)
{
	if (!to || !added)
		return 0;
	for (__u32 slot = 0; slot < ORIGIN_SLOTS; slot++) {
		struct event_origin *origin;

		/* Without this barrier, clang continues with a sum whose bounds the verifier has lost. */
		barrier_var(slot);
		origin = &to->origins[slot & (ORIGIN_SLOTS - 1)];
		if (slot >= to->origin_count) {
			*origin = *added;
			origin->bytes = bytes;
			to->origin_count = slot + 1;
			return 0;
		}
		if (is_same_owner(origin, added)) {
			origin->bytes += bytes;
			origin->flags |= added->flags & ORIGIN_AMBIGUOUS;
			/*
			 * The agent ignores a label that another thread removed before the time of the origin. So the
			 * origin keeps the time of the last write.
			 */
			if (added->time_ns > origin->time_ns)
				origin->time_ns = added->time_ns;
			return 0;
		}
	}
	for (__u32 slot = 0; slot < ORIGIN_SLOTS; slot++) {
		struct event_origin *origin;

		barrier_var(slot);
		origin = &to->origins[slot & (ORIGIN_SLOTS - 1)];
		if (!is_same_label(origin, added))
			continue;
		origin->bytes += bytes;
		add_process(origin, added);
		return 0;
	}
	to->has_others = 1;
	return 0;
}

#endif
