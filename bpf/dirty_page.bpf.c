/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who made a page of a file dirty: its write-back happens later, in another task.
 *
 *   writeback_dirty_folio   a clean folio becomes dirty; large folios of many pages as one
 *   block_dirty_buffer      each write to a block, of file systems with buffer heads (ext4): it names the page of a
 *                           large folio, and a second writer before the write-back
 */
#include "origin.bpf.h"

/* Another writer to a page that is dirty already: how much of it is whose is not known. */
static __always_inline void add_dirtier(struct dirtier *known, __u64 key, const struct event_origin *origin)
{
	struct event_origin *second;

	if (is_same_owner(&known->origin, origin))
		return;
	if (known->count == 1) {
		/* Without room for the second one the page is of more than are known. */
		known->count = bpf_map_update_elem(&dirty_with, &key, origin, BPF_ANY) ? DIRTIERS_MAX : 2;
		return;
	}
	second = bpf_map_lookup_elem(&dirty_with, &key);
	if (known->count == 2 && second && is_same_owner(second, origin))
		return;
	known->count = DIRTIERS_MAX;
}

static __always_inline void forget_dirtier(__u64 key)
{
	bpf_map_delete_elem(&dirty_pages, &key);
	bpf_map_delete_elem(&queued_pages, &key);
}

/* The current task writes to a page. `is_clean`: it was the first to, since it was written back. */
static __always_inline int remember_dirtier(__u64 key, __u64 mapping, __u32 flags, bool is_clean)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dirtier dirtier = {.mapping = mapping, .count = 1}, *known = NULL;
	struct task_state *state = NULL;

	if (!is_clean) {
		known = bpf_map_lookup_elem(&dirty_pages, &key);
		/* Nobody knows who wrote before: its folio's owner, if any, stands for it. */
		if (!known || known->mapping != mapping)
			return 0;
	}
	/* What the kernel itself changes, a file system's own blocks, is nobody's. */
	if (!(task->flags & PF_KTHREAD))
		state = new_state_of(task);
	if (!state) {
		if (known)
			known->count = DIRTIERS_MAX;
		else
			forget_dirtier(key);
		return 0;
	}
	origin_of(&dirtier.origin, task, state);
	if (known) {
		add_dirtier(known, key, &dirtier.origin);
		return 0;
	}
	dirtier.origin.flags |= flags;
	bpf_map_update_elem(&dirty_pages, &key, &dirtier, BPF_ANY);
	return 0;
}

static __always_inline int folio_becomes_dirty(__u64 folio, __u64 mapping)
{
	/* Of a large folio it is not known which of its pages, nor who writes to the others from now on. */
	if (has_page_flag(page_flags(folio), PG_head))
		return remember_dirtier(folio | 1, mapping, ORIGIN_AMBIGUOUS, true);
	return remember_dirtier(folio, mapping, 0, true);
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(folio_dirtied, void *folio, void *mapping)
{
	return folio_becomes_dirty(address_of(folio), address_of(mapping));
}

/* Until 203a31516616 (5.18). */
SEC("tp_btf/writeback_dirty_page")
int BPF_PROG(page_dirtied, void *page, void *mapping)
{
	return folio_becomes_dirty(address_of(page), address_of(mapping));
}

SEC("tp_btf/block_dirty_buffer")
int BPF_PROG(buffer_dirtied, struct buffer_head *buffer)
{
	__u64 folio = buffer_folio(buffer), flags = page_flags(folio), page = folio, size;
	__u64 mapping = (__u64)BPF_CORE_READ((struct page *)folio, mapping);
	bool is_clean = !(buffer->b_state & BH_DIRTY);

	if (!has_page_flag(flags, PG_head)) {
		/* The first write to a page makes its folio dirty next, in folio_dirtied. */
		if (!has_page_flag(flags, PG_dirty))
			return 0;
		return remember_dirtier(page, mapping, 0, false);
	}
	size = large_folio_size(folio);
	if (!size)
		return 0;
	/* Folios lie at multiples of their size, in memory and in the kernel's map of it. */
	page += ((__u64)buffer->b_data & (size - 1)) / PAGE_SIZE * bpf_core_type_size(struct page);
	/* Of several blocks in a page another one may be dirty. */
	if (is_clean && buffer->b_size < PAGE_SIZE && bpf_map_lookup_elem(&dirty_pages, &page))
		is_clean = false;
	return remember_dirtier(page, mapping, 0, is_clean);
}
