/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Decides which events are recorded at all. The agent changes the settings while the programs run:
 * agent/filter/kernel_filter.ts.
 */
#ifndef KREPLAY_FILTER_BPF_H
#define KREPLAY_FILTER_BPF_H

#include "kreplay.bpf.h"

struct filter_settings {
	__u64 min_duration_ns;
	/* One bit for each event type that is not wanted. */
	__u32 event_types_off;
	/* FILTER_* bits. */
	__u32 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter_settings);
} filter_settings SEC(".maps");

/* A listed process. A process that started after `started_by_ns` has only reused its id and is not listed. */
struct filter_pid {
	__u64 started_by_ns;
	__u8 verdict;
	__u8 reserved[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct filter_pid);
} filter_pids SEC(".maps");

struct filter_comm {
	__u64 words[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct filter_comm);
	__type(value, __u8);
} filter_comms SEC(".maps");

/*
 * Process definitions whose unlabelled events are not wanted. A process that executes another program, or moves to
 * another cgroup, gets a new definition, and the agent decides again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u8);
} filter_processes SEC(".maps");

static __always_inline struct filter_settings *filter(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&filter_settings, &zero);
}

static __always_inline bool has_type(const struct filter_settings *filter, __u32 event_type)
{
	return !(filter->event_types_off & 1u << event_type);
}

static __always_inline bool passes_list(const __u8 *verdict, bool only)
{
	return verdict ? *verdict == FILTER_ONLY : !only;
}

static __always_inline bool is_wanted_pid(const struct filter_settings *filter, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct filter_pid *pid = bpf_map_lookup_elem(&filter_pids, &tgid);

	if (pid && leader_of(task)->start_boottime > pid->started_by_ns)
		pid = NULL;
	return passes_list(pid ? &pid->verdict : NULL, filter->flags & FILTER_ONLY_PIDS);
}

static __always_inline bool is_wanted_task(const struct filter_settings *filter, struct task_struct *task)
{
	if (filter->flags & FILTER_PIDS && !is_wanted_pid(filter, task))
		return false;
	if (filter->flags & FILTER_COMMS) {
		struct filter_comm comm;

		copy_comm((char *)&comm, task);
		return passes_list(bpf_map_lookup_elem(&filter_comms, &comm), filter->flags & FILTER_ONLY_COMMS);
	}
	return true;
}

/*
 * Returns whether an event of this owner is wanted. An event with a context is always wanted. An event without a
 * context is not wanted if only labelled events are recorded, or if the service or the cgroup of its process is
 * excluded.
 */
static __always_inline bool is_wanted_owner(const struct filter_settings *filter, __u64 process_id, __u64 context_id)
{
	if (context_id)
		return true;
	if (filter->flags & FILTER_ONLY_LABELLED)
		return false;
	return !(filter->flags & FILTER_PROCESSES) || !bpf_map_lookup_elem(&filter_processes, &process_id);
}

#endif
