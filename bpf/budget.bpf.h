/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Limits how much of each definition ring one cgroup and one user may take: if one of them filled a ring, the events
 * of all others would lose their owners, services and file names.
 *
 * When the agent does not drain the ring, a refused definition must not cost the traced program more than a definition
 * that is already known. So room is requested before anything is read for a definition, and a task whose definition was
 * refused does not request room again for REFUSAL_NS.
 */
#ifndef KREPLAY_BUDGET_BPF_H
#define KREPLAY_BUDGET_BPF_H

#include "cgroup.bpf.h"
#include "kreplay.bpf.h"

/* Time after which a task whose definition was refused requests room again. */
#define REFUSAL_NS 100000000ull

/*
 * Maximum number of bytes of one user within one cgroup before the count restarts. The ring may contain twice as many,
 * because the count may restart before its records are read: see use_of().
 */
#define PAIR_BYTES_MAX(ring_bytes) ((ring_bytes) / 8)
/*
 * Limit for all users of a cgroup together, and for all cgroups of a user together. A single user within one cgroup
 * never reaches it.
 */
#define ALL_BYTES_MAX(ring_bytes) ((ring_bytes) / 16 * 5)
/* Minimum room that the ring must have before a definition is begun. */
#define ROOM_BYTES_MIN 16384

struct definition_use {
	/* Position of the ring's producer when the count of bytes last restarted from 0. */
	__u64 since;
	__u64 bytes;
};

/* Which ring a definition goes into: `definitions` or `file_definitions`. */
enum definition_ring { OTHER_DEFINITIONS, FILE_DEFINITIONS };

struct definer {
	__u64 cgroup_id;
	__u64 user;
	/* OTHER_DEFINITIONS or FILE_DEFINITIONS. */
	__u64 ring;
};

/* Value of a field of struct definer that represents all cgroups or all users. */
#define ALL_OF_THEM (~0ull)

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct definer);
	__type(value, struct definition_use);
} definition_uses SEC(".maps");

/* Size of the header that the ring buffer puts before each record: include/linux/bpf.h. */
#define RECORD_HEADER_SIZE 8
/* The kernel nests at most 33 user namespaces: create_user_ns(), kernel/user_namespace.c. */
#define NAMESPACES_MAX 34
/* Number of low bits of a kernel address that distinguish any two addresses. They fit into a JavaScript number. */
#define ADDRESS_BITS 52
/* Bit that marks the share number of a cgroup. It is above any user id, and below the share number of any namespace. */
#define CGROUP_SHARE (1ULL << 50)

/*
 * Returns the number of the share that the current task's records count against.
 *
 * The host's root runs all services of the host and most containers, so each cgroup of root has its own share. Any
 * other user has one share, no matter how many cgroups the user creates. A user namespace gives its creator additional
 * user ids, tens of thousands with /etc/subuid: all of these ids count against the user that created the outermost
 * namespace. A namespace that root created is usually a container: its share number is derived from the address of the
 * namespace.
 */
__noinline __u64 current_share(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct user_namespace *space = BPF_CORE_READ(task, real_cred, user_ns);
	int level = BPF_CORE_READ(space, level);
	__u32 user = bpf_get_current_uid_gid();

	if (!level)
		return user ? user : CGROUP_SHARE | (cgroup_id_of(task) & (CGROUP_SHARE - 1));
	for (int i = 0; i < NAMESPACES_MAX && level > 1; i++) {
		space = BPF_CORE_READ(space, parent);
		level--;
	}
	user = BPF_CORE_READ(space, owner.val);
	return user ? user : (__u64)space & ((1ULL << ADDRESS_BITS) - 1);
}

static __always_inline __u64 query_definitions(__u32 ring, __u64 flag)
{
	return ring == FILE_DEFINITIONS ? bpf_ringbuf_query(&file_definitions, flag)
					: bpf_ringbuf_query(&definitions, flag);
}

/*
 * Returns the count of a definer's bytes, or NULL if the definer has reached its limit. The count restarts from 0 once
 * the agent has read everything that was in the ring at the last restart. So the count needs no clock, and a delayed
 * agent does not give any definer additional room.
 */
static __always_inline struct definition_use *use_of(const struct definer *definer, __u64 bytes_max)
{
	struct definition_use first = {}, *use = bpf_map_lookup_elem(&definition_uses, definer);

	if (!use) {
		first.since = query_definitions(definer->ring, BPF_RB_PROD_POS);
		bpf_map_update_elem(&definition_uses, definer, &first, BPF_NOEXIST);
		return bpf_map_lookup_elem(&definition_uses, definer);
	}
	if (use->bytes >= bytes_max) {
		if (query_definitions(definer->ring, BPF_RB_CONS_POS) < use->since)
			return NULL;
		use->since = query_definitions(definer->ring, BPF_RB_PROD_POS);
		use->bytes = 0;
	}
	return use;
}

/*
 * Charges a record of the current task to its user and its cgroup; returns 0 if the user or the cgroup has used up its
 * share of the ring, or if the ring is almost full. With a size of 0, nothing is charged. `ring` is a value of enum
 * definition_ring, and `share` the result of current_share().
 */
__noinline int use_definitions(__u32 ring, __u64 share, __u32 size)
{
	__u64 ring_bytes = ring == FILE_DEFINITIONS ? FILE_DEFINITIONS_BYTES : DEFINITIONS_BYTES;
	bool is_root = share >= CGROUP_SHARE && share < CGROUP_SHARE << 1;
	struct definer definer = {cgroup_id_of(bpf_get_current_task_btf()), is_root ? 0 : share, ring};
	struct definition_use *pair, *cgroup, *user = NULL;

	if (query_definitions(ring, BPF_RB_AVAIL_DATA) > ring_bytes - ROOM_BYTES_MIN)
		return 0;
	pair = use_of(&definer, PAIR_BYTES_MAX(ring_bytes));
	definer.user = ALL_OF_THEM;
	cgroup = use_of(&definer, ALL_BYTES_MAX(ring_bytes));
	if (!pair || !cgroup)
		return 0;
	/* The host's root has a separate limit for each cgroup, but no limit as a user. */
	if (!is_root) {
		definer = (struct definer){ALL_OF_THEM, share, ring};
		user = use_of(&definer, ALL_BYTES_MAX(ring_bytes));
		if (!user)
			return 0;
	}
	if (!size)
		return 1;
	size += RECORD_HEADER_SIZE;
	__sync_fetch_and_add(&pair->bytes, size);
	__sync_fetch_and_add(&cgroup->bytes, size);
	if (user)
		__sync_fetch_and_add(&user->bytes, size);
	return 1;
}

#endif
