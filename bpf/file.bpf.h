/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Identifies the file that a descriptor refers to: an event contains the file's id, and the path is sent once through
 * the ring of file definitions.
 */
#ifndef KREPLAY_FILE_BPF_H
#define KREPLAY_FILE_BPF_H

#include "budget.bpf.h"
#include "kernel_compat.bpf.h"
#include "kreplay.bpf.h"

#define PATH_DEPTH_MAX 64
#define NAME_SIZE_MAX 256
/* Bit of a key's name hash that is set if the file has no name: it was unlinked, or it never had a name. */
#define NAME_UNLINKED (1ull << 63)
/*
 * Time after which the path of a known file is read again: renaming a directory higher in the path does not change the
 * file's key.
 */
#define PATH_AGE_MAX_NS 1000000000ull

struct known_file {
	__u64 file_id;
	__u64 defined_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct file_key);
	__type(value, struct known_file);
} known_files SEC(".maps");

struct file_scratch {
	struct path_walk {
		struct file *file;
		struct mount *mount;
		struct dentry *dentry;
		struct dentry *root;
		__u32 size;
	} walk;
	struct file_definition definition;
	char path[PATH_SIZE + NAME_SIZE_MAX];
};

/* Used only by the program at sys_enter, which runs with preemption off and never in an interrupt. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct file_scratch);
} file_scratch SEC(".maps");

/* MKDEV(1, 3) in the kernel's internal encoding. */
#define DEV_NULL (1u << 20 | 3)

/* Returns the open file that a descriptor refers to, or NULL. */
static __always_inline struct file *file_of(struct task_struct *task, __u32 fd)
{
	struct fdtable *table = LOAD_POINTER(struct task_struct, task, files)->fdt;

	return fd < table->max_fds ? READ_POINTER(&table->fd[fd]) : NULL;
}

static __always_inline bool is_dev_null(struct file *file)
{
	struct inode *inode = READ(struct file, file, f_inode);

	return READ(struct inode, inode, i_rdev) == DEV_NULL && (READ(struct inode, inode, i_mode) & S_IFMT) == S_IFCHR;
}

/*
 * Writes the names from the leaf up to the root of the mount namespace, each with its NUL; the agent reverses their
 * order. bpf_d_path() is not allowed in tracepoint programs.
 *
 * The state of the walk is in the map, not in registers: each iteration then begins in the same state for the verifier,
 * which checks only the first one. With the state in registers, verification exceeds a million instructions and the
 * program is refused.
 */
static __always_inline void walk_path(struct file_scratch *scratch)
{
	struct path_walk *walk = &scratch->walk;

	for (int depth = 0; depth < PATH_DEPTH_MAX; depth++) {
		struct dentry *dentry, *parent;
		struct mount *mount;
		long copied;
		__u32 size;

		/*
		 * Without this barrier, clang enters the first iteration in the middle, which verifiers before 6.5
		 * reject as a back-edge.
		 */
		barrier();
		dentry = walk->dentry;
		mount = walk->mount;
		size = walk->size;

		if (dentry == walk->root) {
			struct mount *above = BPF_CORE_READ(mount, mnt_parent);

			if (above == mount)
				return;
			walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			walk->mount = above;
			walk->root = BPF_CORE_READ(above, mnt.mnt_root);
			continue;
		}
		if (size >= PATH_SIZE)
			break;
		copied =
		    bpf_probe_read_kernel_str(scratch->path + size, NAME_SIZE_MAX, BPF_CORE_READ(dentry, d_name.name));
		if (copied < 0)
			break;
		walk->size = size + copied;
		parent = BPF_CORE_READ(dentry, d_parent);
		/* Memfds and similar files have no root above them. */
		if (parent == dentry)
			return;
		walk->dentry = parent;
	}
	scratch->definition.flags |= FILE_TRUNCATED;
}

/*
 * Returns the id of a new definition, or 0 if the definition was refused. This is a global function, so that the
 * verifier checks the walk of a path once instead of for every code path that leads here.
 */
__noinline __u64 define_file(struct file_scratch *scratch, const struct file_key *key)
{
	struct file_definition *definition;
	__u64 share = current_share();
	struct inode *inode;
	struct file *file;
	struct path path;
	__u32 size;

	if (!scratch || !key || !use_definitions(FILE_DEFINITIONS, share, 0))
		return 0;
	file = scratch->walk.file;
	definition = &scratch->definition;
	inode = BPF_CORE_READ(file, f_inode);
	__builtin_memset(definition, 0, sizeof(*definition));
	definition->definition_type = FILE_DEFINITION;
	definition->file_id = new_id();
	definition->inode = key->inode;
	definition->mode = BPF_CORE_READ(inode, i_mode);
	definition->filesystem = BPF_CORE_READ(inode, i_sb, s_magic);
	/* A file that never had a name, such as a memfd, counts as deleted, as it does in /proc. */
	if (key->name_hash & NAME_UNLINKED && (definition->mode & S_IFMT) == S_IFREG)
		definition->flags |= FILE_DELETED;
	path = BPF_CORE_READ(file, f_path);
	scratch->walk.mount = (void *)path.mnt - bpf_core_field_offset(struct mount, mnt);
	scratch->walk.dentry = path.dentry;
	scratch->walk.root = BPF_CORE_READ(path.mnt, mnt_root);
	scratch->walk.size = 0;
	walk_path(scratch);
	size = scratch->walk.size;
	if (size > PATH_SIZE + NAME_SIZE_MAX)
		return 0;
	definition->text_size = size;
	if (!use_definitions(FILE_DEFINITIONS, share, sizeof(*definition) + size) ||
	    bpf_ringbuf_output(&file_definitions, definition, sizeof(*definition) + size, BPF_RB_NO_WAKEUP))
		return 0;
	wake_for_definition();
	return definition->file_id;
}

static __always_inline bool same_file(const struct file_key *a, const struct file_key *b)
{
	return a->dentry == b->dentry && a->name_hash == b->name_hash && a->inode == b->inode &&
	       a->parent == b->parent && a->mount == b->mount;
}

/*
 * Fills `key` with the parts of the path nearest to the file: the file's name, its directory and that directory's name.
 * The directory's name is included, because programs often rename a directory once all its files are written. The inode
 * number distinguishes sockets and pipes whose structures were freed and reused at the same address.
 */
static __always_inline void read_file_key(struct file *file, struct file_key *key)
{
	struct dentry *dentry = READ(struct file, file, f_path.dentry);
	struct inode *inode = READ(struct file, file, f_inode);
	struct dentry *parent;

	key->mount = (__u64)READ(struct file, file, f_path.mnt);
	key->dentry = (__u64)dentry;
	parent = READ(struct dentry, dentry, d_parent);
	key->parent = (__u64)parent;
	key->name_hash = READ(struct dentry, dentry, d_name.hash_len);
	key->name_hash += READ(struct dentry, parent, d_name.hash_len) * 31;
	key->name_hash &= ~NAME_UNLINKED;
	/* This is the condition of d_unlinked(). */
	if (!READ(struct dentry, dentry, d_hash.pprev))
		key->name_hash |= NAME_UNLINKED;
	key->inode = READ(struct inode, inode, i_ino);
}

static __always_inline void define_current_file(struct file *file, const struct file_key *key,
						struct known_file *defined)
{
	struct file_scratch *scratch;
	__u32 zero = 0;

	scratch = bpf_map_lookup_elem(&file_scratch, &zero);
	if (!scratch)
		return;
	scratch->walk.file = file;
	defined->file_id = define_file(scratch, key);
	if (defined->file_id)
		bpf_map_update_elem(&known_files, key, defined, BPF_ANY);
}

/*
 * Makes the file the task's current file, and defines it if the file is new or its path may be outdated. If the
 * definition is refused, the file has no id, and `file_defined_ns` is the time of the refusal.
 */
static __always_inline void look_up_file(struct file *file, struct task_state *state, __u64 now_ns)
{
	struct known_file *known, defined = {.defined_ns = now_ns};
	struct file_key key;

	if (!file) {
		state->file_id = 0;
		state->file_defined_ns = 0;
		return;
	}
	read_file_key(file, &key);
	if (state->file_id && now_ns - state->file_defined_ns < PATH_AGE_MAX_NS && same_file(&state->file_key, &key))
		return;

	known = bpf_map_lookup_elem(&known_files, &key);
	if (!known || now_ns - known->defined_ns >= PATH_AGE_MAX_NS) {
		if (!state->file_id && now_ns - state->file_defined_ns < REFUSAL_NS)
			defined.defined_ns = state->file_defined_ns;
		else
			define_current_file(file, &key, &defined);
		if (!defined.file_id)
			count_loss_of(state, FILE_DEFINITION, LOSS_RING_FULL);
		known = &defined;
	}
	state->file_id = known->file_id;
	state->file_defined_ns = known->defined_ns;
	state->file_key = key;
}

#endif
