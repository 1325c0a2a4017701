/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who made a page of a file dirty: its write-back happens later, in another task.
 *
 * The hook runs when a clean folio becomes dirty, so of several writers the first one counts until it is clean again.
 */
#include "origin.bpf.h"

static __always_inline int remember_dirtier(void *folio, void *mapping)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dirtier dirtier = {.mapping = (__u64)mapping};
	__u64 key = (__u64)folio;
	struct task_state *state = NULL;

	/* What the kernel itself changes, a file system's own blocks, is nobody's. */
	if (!(task->flags & PF_KTHREAD))
		state = new_state_of(task);
	if (!state) {
		bpf_map_delete_elem(&dirty_folios, &key);
		return 0;
	}
	origin_of(&dirtier.origin, task, state);
	bpf_map_update_elem(&dirty_folios, &key, &dirtier, BPF_ANY);
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(folio_dirtied, void *folio, void *mapping)
{
	return remember_dirtier(folio, mapping);
}

/* Until 203a31516616 (5.18). */
SEC("tp_btf/writeback_dirty_page")
int BPF_PROG(page_dirtied, void *page, void *mapping)
{
	return remember_dirtier(page, mapping);
}
