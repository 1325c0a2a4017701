/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sends the path of a cgroup once, before the first process that is defined in that cgroup: the cgroup of a short-lived
 * container may be removed before the agent looks up its folder.
 */
#ifndef KREPLAY_CGROUP_PATH_BPF_H
#define KREPLAY_CGROUP_PATH_BPF_H

#include "budget.bpf.h"

#define CGROUP_DEPTH_MAX 32
#define CGROUP_NAME_SIZE_MAX 256
/* Time after which a path is sent again, because the agent drops paths that were not used for long. */
#define CGROUP_AGE_MAX_NS 60000000000ull

/* Maps the id of a cgroup to the time at which its path was sent. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} known_cgroups SEC(".maps");

struct cgroup_scratch {
	struct kernfs_node *folder;
	__u32 size;
	__u32 reserved;
	struct cgroup_definition definition;
	char path[PATH_SIZE + CGROUP_NAME_SIZE_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cgroup_scratch);
} cgroup_scratch SEC(".maps");

static __always_inline struct kernfs_node *parent_folder(struct kernfs_node *folder)
{
	if (bpf_core_field_exists(folder->__parent))
		return BPF_CORE_READ(folder, __parent);
	return BPF_CORE_READ((struct kernfs_node___parent *)folder, parent);
}

/*
 * Appends the name of the current folder and moves up to its parent; returns 0 at the root, which has no name. The
 * state is in the map, not in registers: see copy_variable().
 */
__noinline int copy_folder(void)
{
	__u32 zero = 0, at;
	struct cgroup_scratch *scratch = bpf_map_lookup_elem(&cgroup_scratch, &zero);
	struct kernfs_node *folder, *parent;
	long size;

	if (!scratch)
		return 0;
	at = scratch->size;
	folder = scratch->folder;
	parent = parent_folder(folder);
	if (!parent || at >= PATH_SIZE)
		return 0;
	size = bpf_probe_read_kernel_str(scratch->path + at, CGROUP_NAME_SIZE_MAX, BPF_CORE_READ(folder, name));
	if (size <= 0)
		return 0;
	scratch->size = at + size;
	scratch->folder = parent;
	return 1;
}

/*
 * Sends the path of the task's cgroup. Returns 0 if the path is not sent; the agent then searches for the folder
 * itself.
 */
__noinline int define_cgroup(__u64 share, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cgroup_id = cgroup_id_of(leader_of(task)), *known_ns;
	struct cgroup_scratch *scratch;
	__u32 zero = 0, size;

	known_ns = bpf_map_lookup_elem(&known_cgroups, &cgroup_id);
	if (known_ns && now_ns - *known_ns < CGROUP_AGE_MAX_NS)
		return 1;
	scratch = bpf_map_lookup_elem(&cgroup_scratch, &zero);
	if (!scratch)
		return 0;
	scratch->folder = cgroup_folder_of(leader_of(task));
	scratch->size = 0;
	for (int depth = 0; depth < CGROUP_DEPTH_MAX; depth++)
		if (!copy_folder())
			break;
	/* A path that exceeded a limit is incomplete and is not sent. */
	size = scratch->size;
	if (parent_folder(scratch->folder) || size > PATH_SIZE)
		return 0;
	__builtin_memset(&scratch->definition, 0, sizeof(scratch->definition));
	scratch->definition.definition_type = CGROUP_DEFINITION;
	scratch->definition.text_size = size;
	scratch->definition.cgroup_id = cgroup_id;
	barrier_var(size);
	if (size > PATH_SIZE || !use_definitions(OTHER_DEFINITIONS, share, sizeof(scratch->definition) + size) ||
	    bpf_ringbuf_output(&definitions, &scratch->definition, sizeof(scratch->definition) + size,
			       BPF_RB_NO_WAKEUP))
		return 0;
	wake_for_definition();
	bpf_map_update_elem(&known_cgroups, &cgroup_id, &now_ns, BPF_ANY);
	return 1;
}

#endif
