/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "budget.bpf.h"

/* include/linux/bpf.h: what the ring buffer puts before a record. */
#define RECORD_HEADER_SIZE 8
/* create_user_ns(), kernel/user_namespace.c: the kernel nests no more than 33. */
#define NAMESPACES_MAX 34

/*
 * The user whom a task is counted for, as a number. A user namespace gives its creator user ids of its own, tens of
 * thousands with /etc/subuid: those count for the user who made the outermost one. What root makes is mostly a
 * container, which must not use up root's share: it has one of its own, and its number is an address, above all ids.
 */
static __always_inline __u64 user_of(struct task_struct *task)
{
	struct user_namespace *space = BPF_CORE_READ(task, real_cred, user_ns);
	int level = BPF_CORE_READ(space, level);
	__u32 owner;

	if (!level)
		return (__u32)bpf_get_current_uid_gid();
	for (int i = 0; i < NAMESPACES_MAX && level > 1; i++) {
		space = BPF_CORE_READ(space, parent);
		level--;
	}
	owner = BPF_CORE_READ(space, owner.val);
	return owner ? owner : (__u64)space;
}

/*
 * Takes room in the definition ring for a record of the current task's user; 0: the user has taken too much. The count
 * begins anew once the agent has read all that was in the ring when it last began, so it needs no clock: an agent that
 * is held up gives a user no more room.
 */
__noinline int use_definitions(__u32 size)
{
	__u64 user = user_of(bpf_get_current_task_btf());
	struct definition_use first = {}, *use = bpf_map_lookup_elem(&definition_uses, &user);

	if (!use) {
		first.since = bpf_ringbuf_query(&definitions, BPF_RB_PROD_POS);
		bpf_map_update_elem(&definition_uses, &user, &first, BPF_NOEXIST);
		use = bpf_map_lookup_elem(&definition_uses, &user);
		if (!use)
			return 1;
	}
	if (use->bytes >= USER_DEFINITION_BYTES_MAX) {
		if (bpf_ringbuf_query(&definitions, BPF_RB_CONS_POS) < use->since)
			return 0;
		use->since = bpf_ringbuf_query(&definitions, BPF_RB_PROD_POS);
		use->bytes = 0;
	}
	__sync_fetch_and_add(&use->bytes, size + RECORD_HEADER_SIZE);
	return 1;
}
