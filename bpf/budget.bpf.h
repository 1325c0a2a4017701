/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Limits how much of the definition ring one user may take: a user that fills the ring would cost all other users the
 * owners, services and file names of their events.
 */
#ifndef KREPLAY_BUDGET_BPF_H
#define KREPLAY_BUDGET_BPF_H

#include "kreplay.bpf.h"

/*
 * Limit between two restarts of the count, see use_definitions(): a user never has more than half of the ring's 4 MiB.
 */
#define USER_DEFINITION_BYTES_MAX (1 << 20)

struct definition_use {
	/* Position of the ring's producer when the count of bytes last restarted from 0. */
	__u64 since;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct definition_use);
} definition_uses SEC(".maps");

/* Size of the header that the ring buffer puts before each record: include/linux/bpf.h. */
#define RECORD_HEADER_SIZE 8
/* The kernel nests at most 33 user namespaces: create_user_ns(), kernel/user_namespace.c. */
#define NAMESPACES_MAX 34
/* Bits of a kernel address that differ between two, as many as a number of JavaScript holds. */
#define ADDRESS_BITS 52

/*
 * Returns the user whose share the current task's records count against, as a number. A user namespace gives its
 * creator user ids of its own, tens of thousands with /etc/subuid: all of these count against the user that created the
 * outermost namespace. A namespace that root created is usually a container, which must not use up root's share: it has
 * its own, and its number is from the address of the namespace, which is larger than any user id.
 */
__noinline __u64 current_user(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
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
	return owner ? owner : (__u64)space & ((1ULL << ADDRESS_BITS) - 1);
}

/*
 * Charges a record to a user's share; returns 0 if the user has used it up. The count restarts from 0 once the agent
 * has read everything that was in the ring at the last restart. So it needs no clock, and a delayed agent gives a user
 * no additional room.
 */
__noinline int use_definitions(__u64 user, __u32 size)
{
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

#endif
