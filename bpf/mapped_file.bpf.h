/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Finds files that processes may have stored to through a shared map: the kernel shows at most the first store to a
 * clean page, and no store to a page that a write has made dirty.
 *
 * The kernel counts the current maps of a file. If a file is no longer mapped, the call that mapped it was seen here.
 */
#ifndef KREPLAY_MAPPED_FILE_BPF_H
#define KREPLAY_MAPPED_FILE_BPF_H

#include "file.bpf.h"

/* Number of places; a power of two. Files with the same place all count as mapped when one of them is mapped. */
#define MAPPED_PLACES 16384

/* Time of CLOCK_BOOTTIME at which a file with this place was last mapped; 0 if there was none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAPPED_PLACES);
	__type(key, __u32);
	__type(value, __u64);
} mapped_files SEC(".maps");

static __always_inline __u64 *mapped_ns_of(__u64 mapping)
{
	/*
	 * Structures of the kernel are at least 8 bytes apart, and the structures of files mostly some hundred bytes.
	 */
	__u32 place = (mapping >> 3 ^ mapping >> 17) & (MAPPED_PLACES - 1);

	return bpf_map_lookup_elem(&mapped_files, &place);
}

/* Returns whether a process may have stored to the file through a map since the given time, or may do so now. */
static __always_inline bool is_stored_to_since(__u64 mapping, __u64 since_ns)
{
	__u64 *mapped_ns;

	if (BPF_CORE_READ((struct address_space *)mapping, i_mmap_writable.counter) > 0)
		return true;
	mapped_ns = mapped_ns_of(mapping);
	return mapped_ns && *mapped_ns >= since_ns;
}

/*
 * Returns whether the task is in the kernel because of its own store to memory, and not in a call: a call that reads
 * into a map or populates it makes pages dirty that the task has not stored to. In a call, orig_ax contains the number
 * of the call.
 */
static __always_inline bool is_store_of_user(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	return !(task->flags & PF_KTHREAD) && (__s64)regs->orig_ax == -1;
}

/* The low four bits of a map's flags are its type: shared, or shared with other flags checked. */
static __always_inline bool is_shared_map(__u64 flags)
{
	return (flags & MAP_TYPE) == MAP_SHARED || (flags & MAP_TYPE) == MAP_SHARED_VALIDATE;
}

/*
 * Records that a file is mapped. If the file is open for writing, a read-only map counts as well, because it may be
 * made writable. Called at the entry of mmap() and at its exit: the file counts the map at some moment in between.
 */
static __always_inline void map_file(__u32 fd, __u64 flags)
{
	struct file *file;
	__u64 *mapped_ns;

	if (!is_shared_map(flags) || flags & MAP_ANONYMOUS)
		return;
	file = file_of(bpf_get_current_task_btf(), fd);
	if (!file || !(READ(struct file, file, f_mode) & FMODE_WRITE))
		return;
	mapped_ns = mapped_ns_of(address_of(READ(struct file, file, f_mapping)));
	if (mapped_ns)
		*mapped_ns = bpf_ktime_get_boot_ns();
}

/* The arguments of the old 32-bit mmap(), which are in memory. */
struct user_mmap32 {
	__u32 address, size, protection, flags, fd, offset;
};

/* Handles mmap() and the two mmap calls of 32-bit programs, whose numbers mean other calls in a 64-bit program. */
static __always_inline void map_by_call(struct pt_regs *regs, __u32 id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool is_compat = task->thread_info.status & TS_COMPAT;
	struct user_mmap32 old = {};

	if (id == NR_MMAP && !is_compat)
		map_file(regs->r8, regs->r10);
	else if (id == NR32_MMAP2 && is_compat)
		map_file(regs->di, regs->si);
	else if (id == NR32_MMAP && is_compat &&
		 !bpf_probe_read_user(&old, sizeof(old), (void *)(__u64)(__u32)regs->bx))
		map_file(old.fd, old.flags);
}

static __always_inline bool is_mmap(__u32 id)
{
	return id == NR_MMAP || id == NR32_MMAP || id == NR32_MMAP2;
}

#endif
