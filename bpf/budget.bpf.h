/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How much of the definition ring one user may take: a user who fills it would take the owners, services and file names
 * from all others.
 */
#ifndef KREPLAY_BUDGET_BPF_H
#define KREPLAY_BUDGET_BPF_H

#include "kreplay.bpf.h"

/* Between two looks of the agent, see use_definitions(): a user then never has more than half of the ring's 4 MiB. */
#define USER_DEFINITION_BYTES_MAX (1 << 20)

struct definition_use {
	/* Where the ring's producer was when the bytes were last counted from 0. */
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

/* budget.bpf.c */
int use_definitions(__u32 size);

#endif
