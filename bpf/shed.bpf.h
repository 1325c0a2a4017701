/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Leaves out fast calls while a ring fills up, so that slow and failed calls still find room. The calls that are left
 * out are counted, and summed up by owner. Each CPU decides for itself, by the fill level of its ring, so this also
 * works while the agent is stopped.
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

/* Key of a sum: the sum adds up calls with the same process, context and event type. */
struct shed_owner {
	__u64 process_id;
	__u64 context_id;
	__u32 context_flags;
	__u32 event_type;
};

struct shed_sum {
	__u64 count;
	/* Sum of the calls' results, which are the numbers of bytes of writes. */
	__u64 bytes;
	__u64 duration_ns;
	__u64 longest_ns;
	/* Starts of the calls that began first and last. */
	__u64 first_ns;
	__u64 last_ns;
};

/* Calls of further owners are only counted, in `losses`. */
#define SHED_OWNERS_MAX 2048

struct shed_sums_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, SHED_OWNERS_MAX);
	__type(key, struct shed_owner);
	__type(value, struct shed_sum);
} shed_sums_0 SEC(".maps"), shed_sums_1 SEC(".maps");

/* Holds the map in use. The agent puts the other map in its place, and then reads a map that no CPU changes any more.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct shed_sums_map);
} shed_sums SEC(".maps") = {.values = {&shed_sums_0}};

/* Adds the task's call to the sum of its owner. */
static __noinline int sum_up_shed(struct task_state *state, __u64 event_type, __u64 start_ns, __u64 duration_ns,
				  __u64 bytes)
{
	__u32 zero = 0;
	void *sums = bpf_map_lookup_elem(&shed_sums, &zero);
	struct shed_sum none = {}, *sum;
	struct shed_owner owner = {};

	if (!sums || !state)
		return 0;
	owner.process_id = state->process_id;
	owner.context_id = state->call_context_id;
	owner.context_flags = state->call_flags;
	owner.event_type = event_type;
	sum = bpf_map_lookup_elem(sums, &owner);
	if (!sum) {
		bpf_map_update_elem(sums, &owner, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, &owner);
		if (!sum)
			return 0;
	}
	if (!sum->count || start_ns < sum->first_ns)
		sum->first_ns = start_ns;
	sum->count++;
	sum->bytes += bytes;
	sum->duration_ns += duration_ns;
	if (duration_ns > sum->longest_ns)
		sum->longest_ns = duration_ns;
	if (start_ns > sum->last_ns)
		sum->last_ns = start_ns;
	return 0;
}

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
