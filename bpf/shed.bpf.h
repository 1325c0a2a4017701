/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Leaves out fast calls while a ring fills up, so that slow and failed calls still find room. The calls that are left
 * out are counted. Each CPU decides for itself, by the fill level of its ring, so this also works while the agent is
 * stopped.
 */
#ifndef KREPLAY_SHED_BPF_H
#define KREPLAY_SHED_BPF_H

#include "kreplay.bpf.h"

/* Time for which a ring has to be emptier before its CPUs leave out less. */
#define SHED_REST_NS 100000000ull
/* Minimum time between two queries of the ring's fill level while calls are left out. */
#define SHED_QUERY_NS 1000000ull
/* Weight of the earlier calls in the mean duration. */
#define MEAN_CALLS 64

struct shed_state {
	/* Running mean of the durations of write and sync calls. */
	__u64 write_mean_ns;
	__u64 sync_mean_ns;
	/* 0: every call is recorded. The higher the level, the slower a call has to be: see duration_min_ns(). */
	__u64 level;
	/* Time at which the ring was last as full as the level says. */
	__u64 filled_ns;
	/* Time of the last query of the ring's fill level. */
	__u64 queried_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shed_state);
} shed_states SEC(".maps");

/* Returns the level that the current CPU's ring calls for. */
static __always_inline __u64 level_of_ring(void)
{
	void *ring = event_ring();
	__u64 size, used;

	if (!ring)
		return 0;
	size = bpf_ringbuf_query(ring, BPF_RB_RING_SIZE);
	used = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	return (used >= size / 4 * 3) + (used >= size / 8 * 7) + (used >= size / 16 * 15);
}

/* Raises the level at once, and lowers it by one for each SHED_REST_NS in which the ring was emptier. */
static __always_inline void update_level(struct shed_state *shed, __u64 now_ns)
{
	__u64 level = level_of_ring(), rests = (now_ns - shed->filled_ns) / SHED_REST_NS;

	shed->queried_ns = now_ns;
	if (level < shed->level && !rests)
		return;
	if (level + rests < shed->level)
		level = shed->level - rests;
	shed->level = level;
	shed->filled_ns = now_ns;
}

/* Returns the minimum duration of a call that is recorded. The last eighth of a ring is for slow and failed calls. */
static __always_inline __u64 duration_min_ns(__u64 level, __u64 mean_ns)
{
	switch (level) {
	case 0:
		return 0;
	case 1:
		return mean_ns * 4 < 1000000 ? mean_ns * 4 : 1000000;
	case 2:
		return 1000000;
	default:
		return 10000000;
	}
}

/* Returns whether a successful call that has just ended is left out. */
static __always_inline bool is_shed(__u32 event_type, __u64 duration_ns, __u64 now_ns)
{
	__u32 zero = 0;
	struct shed_state *shed = bpf_map_lookup_elem(&shed_states, &zero);
	__u64 *mean_ns;

	if (!shed)
		return false;
	mean_ns = event_type == EVENT_SYS_SYNC ? &shed->sync_mean_ns : &shed->write_mean_ns;
	*mean_ns = (*mean_ns * (MEAN_CALLS - 1) + duration_ns) / MEAN_CALLS;
	if (shed->level ? now_ns - shed->queried_ns >= SHED_QUERY_NS : !((now_ns ^ now_ns >> 6) % EVENTS_PER_QUERY))
		update_level(shed, now_ns);
	return duration_ns < duration_min_ns(shed->level, *mean_ns);
}

#endif
