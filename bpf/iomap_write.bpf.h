/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Remembers which task writes to which pages on file systems that write through iomap, such as XFS. These file systems
 * have no buffer heads, and their folios are large. The range of a write is known before its data is copied, even if
 * the write is not made by a call of the write family.
 *
 *   iomap_iter              a write begins: each of its pages gets an entry, keyed by its position in the file
 *   writeback_dirty_folio   the folio was clean: entries of its pages that are older than the write no longer count
 *
 * Only the first IOMAP_PAGES_MAX pages of a write get entries. Further pages have an owner only in folios that the
 * write makes dirty as a whole.
 */
#ifndef KREPLAY_IOMAP_WRITE_BPF_H
#define KREPLAY_IOMAP_WRITE_BPF_H

#include "dirty_page.bpf.h"

#define IOMAP_PAGES_MAX 256

static __always_inline void remember_page(struct written *written, __u64 index)
{
	written->index = index;
	written->key = place_key(written->mapping, index);
	remember_dirtier(written);
}

/* State of a walk over the pages of a write. The state is in a map, not in registers: see copy_variable(). */
struct iomap_walk {
	struct written written;
	__u64 index;
	__u64 end;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct iomap_walk);
} iomap_walks SEC(".maps");

__noinline int remember_next_page(void)
{
	__u32 zero = 0;
	struct iomap_walk *walk = bpf_map_lookup_elem(&iomap_walks, &zero);

	if (!walk || walk->index >= walk->end)
		return 0;
	remember_page(&walk->written, walk->index++);
	return 1;
}

static STEP(remember_page_of_write, __u32 i, void *context)
{
	return !remember_next_page();
}

SEC("tp_btf/iomap_iter")
int BPF_PROG(iomap_written, struct iomap_iter *iter)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct written_range *range;
	struct iomap_walk *walk;
	__u32 zero = 0;

	/*
	 * The tracepoint is reached once before the write, with a length of 0, and again after each part of the write.
	 */
	if (!iter || (iter->flags & IOMAP_KIND) != IOMAP_WRITE || iter->iomap.length || task->flags & PF_KTHREAD)
		return 0;
	range = bpf_task_storage_get(&written_ranges, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	walk = bpf_map_lookup_elem(&iomap_walks, &zero);
	if (!range || !walk || !iter->len)
		return 0;
	range->mapping = (__u64)BPF_CORE_READ(iter, inode, i_mapping);
	range->first = iter->pos / PAGE_SIZE;
	range->end = (iter->pos + iter->len + PAGE_SIZE - 1) / PAGE_SIZE;
	range->time_ns = bpf_ktime_get_boot_ns();
	__builtin_memset(walk, 0, sizeof(*walk));
	walk->written.mapping = range->mapping;
	walk->written.flags = ORIGIN_AMBIGUOUS;
	walk->written.sectors = ALL_SECTORS;
	/*
	 * The page is marked as under write-back, so that an existing entry stays when the page is queued: this write
	 * may change the page before or after the queueing.
	 */
	walk->written.is_clean = true;
	walk->written.is_written_back = true;
	walk->index = range->first;
	walk->end = range->end;
	REPEAT(IOMAP_PAGES_MAX, remember_page_of_write, NULL);
	return 0;
}

#endif
