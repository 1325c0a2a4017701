/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Finds files that processes may have stored to through a shared memory mapping: the kernel shows at most the first
 * store to a clean page, and no store to a page that a write has made dirty.
 *
 * The kernel counts the current mappings of a file, but not its former mappings. So these programs record the time of
 * each call that maps a file.
 */
#ifndef KREPLAY_MAPPED_FILE_BPF_H
#define KREPLAY_MAPPED_FILE_BPF_H

#include "file.bpf.h"

/* Number of places in the hash table; a power of two. */
#define MAPPED_PLACES 8192

/* Number of files that a place can store. */
#define MAPPED_PER_PLACE 8

struct mapped_file {
	/* Address of the file's address_space; 0 in a free entry. */
	__u64 mapping;
	/* Time of CLOCK_BOOTTIME at which the file was last mapped. */
	__u64 mapped_ns;
};

/* Files whose addresses have the same hash. */
struct mapped_place {
	/* Time at which any file of the place was last mapped; 0 if no file was mapped. */
	__u64 latest_ns;
	/* Latest mapping time of the files that have lost their entries in the place. */
	__u64 unnamed_ns;
	struct mapped_file files[MAPPED_PER_PLACE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAPPED_PLACES);
	__type(key, __u32);
	__type(value, struct mapped_place);
} mapped_files SEC(".maps");

static __always_inline struct mapped_place *place_of_mapping(__u64 mapping)
{
	/* The upper bits of a product depend on all bits of the address. */
	__u32 place = mapping * 0x9e3779b97f4a7c15ull >> 40 & (MAPPED_PLACES - 1);

	return bpf_map_lookup_elem(&mapped_files, &place);
}

/* Sets a time to `to_ns` if that is later. Other CPUs may do the same at the same time. */
static __always_inline void advance_time(__u64 *time_ns, __u64 to_ns)
{
	for (int attempt = 0; attempt < 4; attempt++) {
		__u64 known_ns = *(volatile __u64 *)time_ns;

		if (known_ns >= to_ns || __sync_val_compare_and_swap(time_ns, known_ns, to_ns) == known_ns)
			return;
	}
	/* Other CPUs won each attempt. The current time is a safe bound, because no file was mapped later than now. */
	*time_ns = bpf_ktime_get_boot_ns();
}

/*
 * Writes the time of an entry, and returns its former time. If another CPU has given the entry to another file,
 * `unnamed_ns` gets the time. The exchange is a barrier: without the barrier, the entry's file could be read before the
 * time is written.
 */
static __always_inline __u64 write_mapped_ns(struct mapped_place *place, struct mapped_file *file, __u64 mapping,
					     __u64 now_ns)
{
	__u64 former_ns = __sync_lock_test_and_set(&file->mapped_ns, now_ns);

	if (*(volatile __u64 *)&file->mapping != mapping)
		advance_time(&place->unnamed_ns, now_ns);
	return former_ns;
}

/*
 * Remembers that the file is mapped now. A file without an entry replaces the file that was mapped least recently,
 * whose time goes to `unnamed_ns` first. Other CPUs may change the place at the same time: if another CPU takes the
 * entry first, the time of this file goes to `unnamed_ns`.
 */
static __always_inline void remember_mapped(struct mapped_place *place, __u64 mapping, __u64 now_ns)
{
	__u32 oldest = 0;
	__u64 oldest_ns = ~0ull, former;

	advance_time(&place->latest_ns, now_ns);
	for (__u32 slot = 0; slot < MAPPED_PER_PLACE; slot++) {
		struct mapped_file *file = &place->files[slot];

		if (file->mapping == mapping) {
			write_mapped_ns(place, file, mapping, now_ns);
			return;
		}
		if (file->mapped_ns < oldest_ns) {
			oldest_ns = file->mapped_ns;
			oldest = slot;
		}
	}
	oldest &= MAPPED_PER_PLACE - 1;
	former = place->files[oldest].mapping;
	advance_time(&place->unnamed_ns, oldest_ns);
	if (__sync_val_compare_and_swap(&place->files[oldest].mapping, former, mapping) != former) {
		advance_time(&place->unnamed_ns, now_ns);
		return;
	}
	advance_time(&place->unnamed_ns, write_mapped_ns(place, &place->files[oldest], mapping, now_ns));
}

/*
 * Returns whether a process may have stored to the file through a memory mapping since the given time, or may do so
 * now.
 */
static __always_inline bool is_stored_to_since(__u64 mapping, __u64 since_ns)
{
	struct mapped_place *place;

	if (BPF_CORE_READ((struct address_space *)mapping, i_mmap_writable.counter) > 0)
		return true;
	place = place_of_mapping(mapping);
	if (!place || place->latest_ns < since_ns)
		return false;
	for (__u32 slot = 0; slot < MAPPED_PER_PLACE; slot++)
		if (place->files[slot].mapping == mapping)
			return place->files[slot].mapped_ns >= since_ns;
	/*
	 * A file without an entry may have lost it to another file. In that case, `unnamed_ns` is at least the file's
	 * time.
	 */
	return *(volatile __u64 *)&place->unnamed_ns >= since_ns;
}

/*
 * Returns whether the task is in the kernel because of its own store to memory, and not in a call: a call that reads
 * into a mapping or populates it makes pages dirty that the task has not stored to. In a call, orig_ax contains the
 * number of the call.
 */
static __always_inline bool is_store_of_user(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	return !(task->flags & PF_KTHREAD) && (__s64)regs->orig_ax == -1;
}

/*
 * Returns whether a mapping is shared. The low four bits of its flags are its type: MAP_SHARED, or MAP_SHARED_VALIDATE,
 * which also checks the other flags.
 */
static __always_inline bool is_shared_map(__u64 flags)
{
	return (flags & MAP_TYPE) == MAP_SHARED || (flags & MAP_TYPE) == MAP_SHARED_VALIDATE;
}

/*
 * Records that a file is mapped. If the file is open for writing, a read-only mapping counts as well, because it may be
 * made writable. Called at the entry of mmap() and at its exit: the kernel counts the mapping at some time in between.
 */
static __always_inline void map_file(__u32 fd, __u64 flags)
{
	struct mapped_place *place;
	struct file *file;
	__u64 mapping;

	if (!is_shared_map(flags) || flags & MAP_ANONYMOUS)
		return;
	file = file_of(bpf_get_current_task_btf(), fd);
	if (!file || !(READ(struct file, file, f_mode) & FMODE_WRITE))
		return;
	mapping = address_of(READ(struct file, file, f_mapping));
	place = place_of_mapping(mapping);
	if (place)
		remember_mapped(place, mapping, bpf_ktime_get_boot_ns());
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
