/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who took part in a transaction of an ext4 journal, which the journal's own thread writes for all of them. XFS and
 * btrfs write their logs in the task that calls fsync.
 */
#include "origin.bpf.h"

static __always_inline __u64 transaction_key(__u32 device, __u32 transaction)
{
	return (__u64)device << 32 | transaction;
}

SEC("tp_btf/jbd2_handle_start")
int BPF_PROG(journal_handle_start, __u32 device, __u32 transaction)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = transaction_key(device, transaction);
	struct journal_owners empty = {}, *owners;
	struct event_origin origin;
	struct task_state *state;
	__u32 slot;

	/* Workers that convert extents are part of every transaction. */
	if (task->flags & PF_KTHREAD)
		return 0;
	state = new_state_of(task);
	if (!state)
		return 0;
	owners = bpf_map_lookup_elem(&journal_owners, &key);
	if (!owners) {
		bpf_map_update_elem(&journal_owners, &key, &empty, BPF_NOEXIST);
		owners = bpf_map_lookup_elem(&journal_owners, &key);
		if (!owners)
			return 0;
	}
	origin_of(&origin, task, state);
	for (slot = 0; slot < ORIGINS_MAX; slot++)
		if (is_same_owner(&owners->owners[slot], &origin))
			return 0;
	slot = __sync_fetch_and_add(&owners->count, 1);
	if (slot < ORIGINS_MAX)
		owners->owners[slot] = origin;
	return 0;
}

SEC("tp_btf/jbd2_start_commit")
int BPF_PROG(journal_commit_start, struct journal_s *journal, struct transaction_s *transaction)
{
	struct task_state *state = new_state_of(bpf_get_current_task_btf());

	if (state)
		state->journal_transaction =
		    transaction_key(BPF_CORE_READ(journal, j_fs_dev, bd_dev), BPF_CORE_READ(transaction, t_tid));
	return 0;
}

SEC("tp_btf/jbd2_end_commit")
int BPF_PROG(journal_commit_end, struct journal_s *journal, struct transaction_s *transaction)
{
	struct task_state *state = state_of(bpf_get_current_task_btf());

	if (state)
		state->journal_transaction = 0;
	return 0;
}
