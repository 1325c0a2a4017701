/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads OpenTelemetry's thread context (OTEP 4947): a thread-local variable points to a record of the span that the
 * thread works for. The record is read in a system call of the thread itself, so it is never read while half written.
 */
#ifndef KREPLAY_OTEL_BPF_H
#define KREPLAY_OTEL_BPF_H

#include "context.bpf.h"

/*
 * Location where the threads of a process publish their context. The key is the thread group; the agent fills in the
 * map.
 */
struct otel_process {
	/* Time of CLOCK_BOOTTIME by which the process had started. A process that started later has reused the id. */
	__u64 started_ns;
	/*
	 * Offset of the variable from the thread pointer; if `module` is not 0, from the beginning of the thread's
	 * block for the module.
	 */
	__s64 offset;
	/* Id of the module; 0 if the offset is relative to the thread pointer. */
	__u64 module;
	/* Exec count of the program that the location belongs to: the next program has another location. */
	__u32 exec_id;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct otel_process);
} otel_processes SEC(".maps");

/*
 * Nonzero if otel_processes has entries. Every event reads this array first, which is much cheaper than looking up a
 * hash map.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} otel_in_use SEC(".maps");

static __always_inline bool publishes_threads(struct task_struct *task)
{
	__u32 zero = 0, tgid = task->tgid, *in_use;

	if (!otel_layer || task->flags & PF_KTHREAD)
		return false;
	in_use = bpf_map_lookup_elem(&otel_in_use, &zero);
	return in_use && *in_use && bpf_map_lookup_elem(&otel_processes, &tgid);
}

/* The head contains the trace (16 bytes), the span (8), valid (1), flags (1) and the size of the attributes (2). */
#define HEAD_SIZE 28
#define HEAD_VALID 3
#define RECORD_WORDS 4
#define ATTRIBUTE_WORDS 8

/*
 * The context that was defined for a thread's record, and the content of the record: its head and its first attributes.
 */
struct otel_thread {
	__u64 context_id;
	__u64 outer_id;
	__u64 head[RECORD_WORDS];
	__u64 attributes[ATTRIBUTE_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct otel_thread);
} otel_threads SEC(".maps");

static __always_inline bool read_user_word(__u64 *word, __u64 address)
{
	return !bpf_probe_read_user(word, sizeof(*word), (void *)address);
}

/* Returns the address of the thread's variable, or 0 if glibc has not allocated the variable's block yet. */
static __always_inline __u64 variable_address(struct task_struct *task, const struct otel_process *process)
{
	__u64 thread_pointer = task->thread.fsbase, vector = 0, last = 0, block = 0;

	if (!process->module)
		return thread_pointer + process->offset;
	/*
	 * The layout is that of tcbhead_t and dtv_t, sysdeps/x86_64/nptl/tls.h; the length of the vector precedes its
	 * first entry.
	 */
	if (!read_user_word(&vector, thread_pointer + 8) || !read_user_word(&last, vector - 16) ||
	    process->module > last || !read_user_word(&block, vector + 16 * process->module))
		return 0;
	return block && block != ~0ull ? block + process->offset : 0;
}

static __always_inline bool is_same_record(const struct otel_thread *a, const struct otel_thread *b)
{
	__u64 difference = a->outer_id ^ b->outer_id;

	for (int i = 0; i < RECORD_WORDS; i++)
		difference |= a->head[i] ^ b->head[i];
	for (int i = 0; i < ATTRIBUTE_WORDS; i++)
		difference |= a->attributes[i] ^ b->attributes[i];
	return !difference;
}

/*
 * Defines the current thread's record as a context, unless the record is unchanged; returns 0 if the thread has no
 * record.
 */
__noinline int read_thread_record(__u64 outer_id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid, zero = 0, size;
	struct otel_process *process = bpf_map_lookup_elem(&otel_processes, &tgid);
	struct otel_thread now = {.outer_id = outer_id}, *thread;
	__u64 address, record = 0, attributes_size;
	struct context_scratch *scratch;

	if (!process || leader_of(task)->start_boottime > process->started_ns ||
	    (__u32)task->self_exec_id != process->exec_id)
		return 0;
	address = variable_address(task, process);
	if (!address || !read_user_word(&record, address) || !record ||
	    bpf_probe_read_user(now.head, HEAD_SIZE, (void *)record) || (now.head[HEAD_VALID] & 0xff) != 1)
		return 0;
	attributes_size = now.head[HEAD_VALID] >> 16 & 0xffff;
	size = attributes_size < sizeof(now.attributes) ? attributes_size : sizeof(now.attributes);
	barrier_var(size);
	if (size > sizeof(now.attributes) || bpf_probe_read_user(now.attributes, size, (void *)(record + HEAD_SIZE)))
		return 0;
	thread = bpf_task_storage_get(&otel_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	scratch = bpf_map_lookup_elem(&context_scratch, &zero);
	if (!thread || !scratch)
		return 0;
	if (thread->context_id && is_same_record(thread, &now))
		return 1;
	size = attributes_size < THREAD_RECORD_SIZE - HEAD_SIZE ? attributes_size + HEAD_SIZE : THREAD_RECORD_SIZE;
	size &= MARKER_SIZE - 1;
	if (bpf_probe_read_user(scratch->text, size, (void *)record))
		return 0;
	now.context_id = define_context(task, scratch, size, SCOPE_OTEL, outer_id, bpf_ktime_get_boot_ns());
	/* If the context could not be stored, the next event tries again. */
	if (now.context_id == CONTEXT_LOST)
		now.context_id = 0;
	*thread = now;
	return 1;
}

/* Forgets the location of the process's context at exec: the agent has to find the location for the new program. */
static __always_inline void forget_published(struct task_struct *task)
{
	__u32 tgid = task->tgid;

	bpf_map_delete_elem(&otel_processes, &tgid);
	bpf_task_storage_delete(&otel_threads, task);
}

#endif
