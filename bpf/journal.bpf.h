/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records which tasks took part in a transaction of an ext4 journal, because the journal's thread writes the
 * transaction for all of them. XFS and btrfs write their logs in the task that calls fsync.
 */
#ifndef KREPLAY_JOURNAL_BPF_H
#define KREPLAY_JOURNAL_BPF_H

#include "origin.bpf.h"

/* Owners that took part in a journal's transaction. The count may exceed the number of slots. */
struct journal_owners {
	__u64 first_ns;
	/*
	 * The count has 64 bits, because clang compiles a 32-bit atomic addition that returns the old value only with
	 * -mcpu=v3.
	 */
	__u64 count;
	/*
	 * Tasks took part that are not known: kernel threads, on behalf of the tasks whose data they write, or tasks
	 * without a process and a context.
	 */
	__u32 others;
	struct event_origin owners[ORIGIN_SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct journal_owners);
} journal_owners SEC(".maps");

/* The empty owners of a new transaction, which are too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct journal_owners);
} nobody SEC(".maps");

static __always_inline __u64 transaction_key(__u32 device, __u32 transaction)
{
	return (__u64)device << 32 | transaction;
}

static __always_inline struct journal_owners *owners_of(__u64 key)
{
	struct journal_owners *owners = bpf_map_lookup_elem(&journal_owners, &key), *empty;
	__u32 zero = 0;

	if (owners)
		return owners;
	empty = bpf_map_lookup_elem(&nobody, &zero);
	if (!empty)
		return NULL;
	bpf_map_update_elem(&journal_owners, &key, empty, BPF_NOEXIST);
	owners = bpf_map_lookup_elem(&journal_owners, &key);
	if (owners)
		owners->first_ns = bpf_ktime_get_boot_ns();
	return owners;
}

/* Adds the current task to the owners of the transaction. */
static __always_inline int join_transaction(__u32 device, __u32 transaction)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = transaction_key(device, transaction);
	struct journal_owners *owners = owners_of(key);
	struct event_origin origin;
	struct task_state *state = NULL;
	__u32 slot;

	if (!owners)
		return 0;
	/*
	 * Kernel workers allocate blocks and convert extents on behalf of the tasks whose data they write. These tasks
	 * may not have joined the transaction themselves.
	 */
	if (!(task->flags & PF_KTHREAD))
		state = new_state_of(task);
	if (!state) {
		owners->others = 1;
		return 0;
	}
	origin_of(&origin, task, state);
	/*
	 * The origin of an unknown task equals a slot that is empty or that another CPU is filling, so `others` says
	 * that the task took part. The origin gets a slot only if no owner has one: the blocks of a transaction
	 * without any owner would count as the kernel's own.
	 */
	if (!is_known(&origin)) {
		owners->others = 1;
		if (owners->count)
			return 0;
	}
	for (slot = 0; slot < ORIGIN_SLOTS && slot < owners->count; slot++)
		if (is_same_owner(&owners->owners[slot], &origin))
			return 0;
	/* If no slot is free, processes of the same transaction share a slot. */
	for (slot = 0; slot < ORIGIN_SLOTS && owners->count >= ORIGIN_SLOTS; slot++) {
		if (!is_same_label(&owners->owners[slot], &origin))
			continue;
		add_process(&owners->owners[slot], &origin);
		return 0;
	}
	slot = __sync_fetch_and_add(&owners->count, 1);
	if (slot < ORIGIN_SLOTS)
		owners->owners[slot] = origin;
	return 0;
}

/*
 * Maximum time between the beginning of a transaction and its first join: the handle that begins a transaction joins it
 * at once, unless the journal is full. If the first recorded join comes later, earlier joins may be missing.
 */
#define FIRST_JOIN_NS_MAX 10000000ull

/*
 * Deletes owners that joined before the transaction began: they are left from a former file system, which was not
 * unmounted properly. If the first owner joined long after the transaction began, other tasks had joined before the
 * agent was attached, so `others` is set.
 */
static __always_inline void check_owners(struct journal_owners *owners, struct transaction_s *transaction, __u64 key)
{
	__u64 age_ns = bpf_ktime_get_ns() - BPF_CORE_READ(transaction, t_start_time);
	__u64 joined_ns = bpf_ktime_get_boot_ns() - owners->first_ns;

	if (joined_ns > age_ns)
		bpf_map_delete_elem(&journal_owners, &key);
	else if (age_ns - joined_ns > FIRST_JOIN_NS_MAX)
		owners->others = 1;
}

/*
 * Deletes the entry of a committed transaction, because transaction numbers repeat when a new file system is created on
 * the device.
 */
SEC("tp_btf/jbd2_end_commit")
int BPF_PROG(journal_commit_end, struct journal_s *journal, struct transaction_s *transaction)
{
	struct task_state *state = state_of(bpf_get_current_task_btf());
	__u64 key;

	if (!state)
		return 0;
	key = state->journal_transaction;
	bpf_map_delete_elem(&journal_owners, &key);
	state->journal_transaction = 0;
	return 0;
}

SEC("tp_btf/jbd2_start_commit")
int BPF_PROG(journal_commit_start, struct journal_s *journal, struct transaction_s *transaction)
{
	struct task_state *state = new_state_of(bpf_get_current_task_btf());
	struct journal_owners *owners;
	__u64 key;

	/*
	 * If jbd2 is a module, the verifier assumes that any argument of its tracepoints may be NULL: commit
	 * 838a10bd2ebf ("bpf: Augment raw_tp arguments with PTR_MAYBE_NULL"), Linux 6.13 and 6.12.y.
	 */
	if (!journal || !transaction)
		return 0;
	key = transaction_key(BPF_CORE_READ(journal, j_fs_dev, bd_dev), BPF_CORE_READ(transaction, t_tid));
	owners = bpf_map_lookup_elem(&journal_owners, &key);
	if (owners)
		check_owners(owners, transaction, key);
	if (state)
		state->journal_transaction = key;
	return 0;
}

SEC("tp_btf/jbd2_handle_start")
int BPF_PROG(journal_handle_start, __u32 device, __u32 transaction)
{
	return join_transaction(device, transaction);
}

/* Joins the next transaction: a jbd2 handle that needs more room continues there without a start event. */
SEC("tp_btf/jbd2_handle_restart")
int BPF_PROG(journal_handle_restart, __u32 device, __u32 transaction)
{
	return join_transaction(device, transaction);
}

#endif
