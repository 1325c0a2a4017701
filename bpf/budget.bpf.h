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

struct definition_use_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct definition_use);
};

extern struct definition_use_map definition_uses SEC(".maps");

/* Defined in budget.bpf.c. */
__u64 current_user(void);
int use_definitions(__u64 user, __u32 size);

#endif
