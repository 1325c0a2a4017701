/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Identifies the cgroup of a task, in the hierarchy that the agent has chosen. */
#ifndef KREPLAY_CGROUP_BPF_H
#define KREPLAY_CGROUP_BPF_H

#include "kernel_compat.bpf.h"

/* The cgroup hierarchy that definitions refer to. The agent sets it before the programs are loaded. */
enum cgroup_hierarchy { CGROUP_V2, CGROUP_V1_MEMORY, CGROUP_V1_PIDS };
const volatile __u32 cgroup_hierarchy = CGROUP_V2;

/* Returns the directory of the task's cgroup. */
static __always_inline struct kernfs_node *cgroup_folder_of(struct task_struct *task)
{
	struct cgroup_subsys_state **states, *state = NULL;
	__u32 index;

	if (cgroup_hierarchy == CGROUP_V2)
		return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn);
	if (cgroup_hierarchy == CGROUP_V1_MEMORY)
		index = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	else
		index = bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id);
	/* The address is computed by hand, because CO-RE relocates only constant indexes. */
	states = (void *)BPF_CORE_READ(task, cgroups) + bpf_core_field_offset(struct css_set, subsys);
	bpf_probe_read_kernel(&state, sizeof(state), states + index);
	return BPF_CORE_READ(state, cgroup, kn);
}

/* Returns the inode number of the cgroup's directory. bpf_get_current_cgroup_id() supports only cgroup v2. */
static __always_inline __u64 cgroup_id_of(struct task_struct *task)
{
	return BPF_CORE_READ(cgroup_folder_of(task), id);
}

#endif
