/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Determines the context that an event of the current task belongs to. */
#ifndef KREPLAY_OWNER_BPF_H
#define KREPLAY_OWNER_BPF_H

#include "kreplay.bpf.h"

/* Location where the threads of a process publish their context, by thread group. The agent fills in the map. */
struct otel_process {
	/* CLOCK_BOOTTIME by which the process had started. A process that started later has reused the id. */
	__u64 started_ns;
	/* Offset of the variable from the thread pointer, or in the thread's block of a module. */
	__s64 offset;
	/* Number of the module; 0 if the offset is from the thread pointer. */
	__u64 module;
};

struct otel_process_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct otel_process);
};

/* Not 0 if there are such processes. It is read at every event: an array costs nothing compared with a hash map. */
struct otel_in_use_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
};

#define RECORD_WORDS 4
#define ATTRIBUTE_WORDS 8

/*
 * The context that a thread's record was defined as, and the record's content: its head and the first of its
 * attributes.
 */
struct otel_thread {
	__u64 context_id;
	__u64 outer_id;
	__u64 head[RECORD_WORDS];
	__u64 attributes[ATTRIBUTE_WORDS];
};

struct otel_thread_map {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct otel_thread);
};

extern struct otel_process_map otel_processes SEC(".maps");
extern struct otel_in_use_map otel_in_use SEC(".maps");
extern struct otel_thread_map otel_threads SEC(".maps");

/* Defined in otel.bpf.c. */
int read_thread_record(__u64 outer_id);

static __always_inline bool publishes_threads(struct task_struct *task)
{
	__u32 zero = 0, tgid = task->tgid, *in_use;

	if (!otel_layer || task->flags & PF_KTHREAD)
		return false;
	in_use = bpf_map_lookup_elem(&otel_in_use, &zero);
	return in_use && *in_use && bpf_map_lookup_elem(&otel_processes, &tgid);
}

static __always_inline struct owner owner_of(struct task_struct *task, struct task_state *state)
{
	struct owner owner = own_or_process_context(task, state);
	struct otel_thread *thread;

	if (!publishes_threads(task))
		return owner;
	/* A context that the thread has by reference may end before this one does. */
	if (!read_thread_record(owner.flags & (CONTEXT_INHERITED_THREAD | CONTEXT_HTTP) ? 0 : owner.context_id))
		return owner;
	thread = bpf_task_storage_get(&otel_threads, task, 0, 0);
	if (thread) {
		owner.context_id = thread->context_id;
		owner.flags = CONTEXT_OTEL;
	}
	return owner;
}

#endif
