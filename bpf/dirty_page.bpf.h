/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records which task made a page of a file dirty, because its write-back happens later, in another task.
 *
 *   writeback_dirty_folio   a clean folio becomes dirty; a large folio of many pages as one
 *   block_dirty_buffer      each write to a block, on file systems with buffer heads (ext4): it identifies the page of
 *                           a large folio, and a second writer before the write-back
 *
 * On file systems without buffer heads (XFS, btrfs), and for stores through a memory mapping, the kernel does not show
 * each write. Other tasks may then have written to a page after the task that made it dirty. iomap_write.bpf.h sees
 * more of the writes to XFS.
 */
#ifndef KREPLAY_DIRTY_PAGE_BPF_H
#define KREPLAY_DIRTY_PAGE_BPF_H

#include "kernel_compat.bpf.h"
#include "mapped_file.bpf.h"
#include "origin.bpf.h"

/*
 * The task that made a page dirty, and the page's position in its file. If the memory is reused for another page of a
 * file, the position differs and the entry does not match.
 */
struct dirtier {
	struct event_origin origin;
	__u64 mapping;
	__u64 index;
	/*
	 * One bit for each sector of 512 bytes: the sectors that the first owner, the second owner and other owners
	 * made dirty, and the sectors whose write-back is queued. A page has several blocks if blocks are smaller than
	 * pages.
	 */
	__u8 own_sectors;
	__u8 second_sectors;
	__u8 other_sectors;
	__u8 queued_sectors;
	/* Number of owners known to have written to the page, up to DIRTIERS_MAX. The second owner is in dirty_with. */
	__u32 count;
	/* Device on which the page's write-back is queued. */
	__u32 device;
	/* The page was written to while its write-back was in progress and not yet queued. */
	__u8 is_dirty_again;
	/* STORES_* */
	__u8 stores;
	/* RANGE_* */
	__u16 range;
};

enum {
	RANGE_UNKNOWN,
	/*
	 * A write whose range is known made the folio dirty. Later entries of single pages show which tasks wrote to
	 * these pages.
	 */
	RANGE_PART,
	/* The write's range covers the folio: the write also owns the pages without an entry of their own. */
	RANGE_WHOLE,
	/*
	 * The write-back of a page in a known range is queued, but the page's entry stays until the next write replaces
	 * it.
	 */
	RANGE_QUEUED,
};

/* Stores through a memory mapping of the file: the kernel shows at most the first store to a clean page. */
enum {
	STORES_NONE,
	/* The first owner made the page dirty by a store through a memory mapping. */
	STORES_OWN,
	/* Any process that has mapped the file may have replaced the data of the known writers. */
	STORES_UNSEEN,
};

/* The last write of a task through iomap, in pages: see iomap_write.bpf.h. */
struct written_range {
	__u64 mapping;
	__u64 first;
	__u64 end;
	__u64 time_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct written_range);
} written_ranges SEC(".maps");

/*
 * Returns a key for a page, computed from its position in a file. The key's low bits distinguish the key from an
 * address.
 */
static __always_inline __u64 place_key(__u64 mapping, __u64 index)
{
	return (((mapping << 16 | mapping >> 48) ^ index * 0x9e3779b97f4a7c15ull) & ~3ull) | 2;
}

static __always_inline bool is_place_key(__u64 key)
{
	return (key & 3) == 2;
}

#define DIRTIERS_MAX 3
#define ALL_SECTORS 0xff

/* Returns the bits of the sectors that a part of a page covers. */
static __always_inline __u8 sectors_of(__u64 offset, __u64 bytes)
{
	__u64 first = offset % PAGE_SIZE >> 9, count = bytes >> 9;

	if (count >= 8)
		return ALL_SECTORS;
	return ((1u << count) - 1) << first;
}

/*
 * Maps pages that wait for their write-back to their dirtiers. The key is the address of a page, the address of a large
 * folio with bit 0 set, or place_key(). The agent sizes the map to cover a part of the host's memory.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, __u64);
	__type(value, struct dirtier);
} dirty_pages SEC(".maps");

/*
 * Maps pages whose write-back is queued to their dirtiers, because a mirror then writes these pages to its other disks.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct dirtier);
} queued_pages SEC(".maps");

/* Maps the key of a page to the second owner that wrote to the page before its write-back. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct event_origin);
} dirty_with SEC(".maps");

/*
 * The folio that is about to become dirty by a write to one of its blocks. block_dirty_buffer stores the entry, and
 * writeback_dirty_folio reads it. A task that moves to another CPU in between does not find its entry. The time and the
 * thread id prevent a match of that entry with a later store to the folio.
 */
struct block_write {
	__u64 folio;
	__u64 time_ns;
	__u32 tid;
	__u32 sectors;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block_write);
} block_writes SEC(".maps");

/*
 * Removes the sectors of a block that has become clean because its write-back is queued or its data was discarded.
 * Returns whether the page has other dirty sectors.
 */
static __always_inline bool remove_sectors(struct dirtier *known, __u64 key, __u8 sectors)
{
	struct event_origin *second;

	known->own_sectors &= ~sectors;
	known->second_sectors &= ~sectors;
	known->other_sectors &= ~sectors;
	known->queued_sectors &= ~sectors;
	if (known->count == 2 && !known->second_sectors)
		known->count = 1;
	if (known->count == 2 && !known->own_sectors) {
		second = bpf_map_lookup_elem(&dirty_with, &key);
		if (second) {
			known->origin = *second;
			known->own_sectors = known->second_sectors;
			known->second_sectors = 0;
			known->count = 1;
			/* The owner that stored through a memory mapping has no sectors left. */
			if (known->stores == STORES_OWN)
				known->stores = STORES_NONE;
		}
	}
	return known->own_sectors | known->second_sectors | known->other_sectors;
}

/*
 * Adds another writer to a page that is already dirty. If both wrote to a block, it is unknown how much of the block
 * belongs to each of them.
 */
static __always_inline void add_dirtier(struct dirtier *known, __u64 key, const struct event_origin *origin,
					__u8 sectors)
{
	struct event_origin *second;

	if (is_same_owner(&known->origin, origin)) {
		/*
		 * The agent ignores a label that another thread removed before the time of the origin. So the origin
		 * keeps the time of the last write.
		 */
		known->origin.time_ns = origin->time_ns;
		known->origin.flags |= origin->flags;
		known->own_sectors |= sectors;
		return;
	}
	if (known->count == 1 && !known->origin.process_id && is_same_label(&known->origin, origin)) {
		add_process(&known->origin, origin);
		known->own_sectors |= sectors;
		return;
	}
	if (known->count == 1 && !bpf_map_update_elem(&dirty_with, &key, origin, BPF_ANY)) {
		known->second_sectors = sectors;
		known->count = 2;
		return;
	}
	second = bpf_map_lookup_elem(&dirty_with, &key);
	if (known->count == 2 && second && is_same_owner(second, origin)) {
		known->second_sectors |= sectors;
		return;
	}
	/*
	 * More processes of one transaction wrote to the page than can be stored, so one origin represents all of them.
	 */
	if (known->count == 2 && second && is_same_label(&known->origin, second) &&
	    is_same_label(&known->origin, origin)) {
		known->count = 1;
		known->own_sectors |= known->second_sectors | sectors;
		known->second_sectors = 0;
		add_process(&known->origin, second);
		add_process(&known->origin, origin);
		return;
	}
	/* The page has writers that are not known, perhaps only because there was no room for the second writer. */
	known->other_sectors |= sectors;
	known->count = DIRTIERS_MAX;
}

static __always_inline void forget_dirtier(__u64 key)
{
	bpf_map_delete_elem(&dirty_pages, &key);
	bpf_map_delete_elem(&queued_pages, &key);
}

/* The page or large folio that a write changes. */
struct written {
	/* Key in dirty_pages. */
	__u64 key;
	__u64 mapping;
	__u64 index;
	__u32 flags;
	__u8 sectors;
	/* No task has written to the page or folio since its last write-back began. */
	bool is_clean;
	/*
	 * No task has written to the block since its last write-back began; tasks may have written to other blocks of
	 * the page.
	 */
	bool is_block_clean;
	bool is_written_back;
	/* STORES_* */
	__u8 stores;
};

/*
 * Returns the STORES_* value for a page that the task makes dirty. A store to a large folio counts as unseen, because
 * the kernel does not show which page the store has changed.
 */
static __always_inline __u8 stores_of(struct task_struct *task, __u64 folio_flags)
{
	if (!is_store_of_user(task))
		return STORES_NONE;
	return has_page_flag(folio_flags, PG_head) ? STORES_UNSEEN : STORES_OWN;
}

/*
 * Marks the dirtier as ambiguous if processes may have stored to the page since the given time, or may store to it now.
 */
static __always_inline void add_unseen_stores(struct dirtier *dirtier, __u64 since_ns)
{
	if (!is_stored_to_since(dirtier->mapping, since_ns))
		return;
	dirtier->origin.flags |= ORIGIN_AMBIGUOUS;
	if (dirtier->stores == STORES_NONE)
		dirtier->stores = STORES_UNSEEN;
}

static __always_inline int remember_dirtier(const struct written *written)
{
	struct dirtier dirtier = {.mapping = written->mapping, .index = written->index, .count = 1}, *known = NULL;
	__u8 sectors = written->sectors;
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = NULL;
	__u64 key = written->key;

	if (!written->is_clean || written->is_written_back) {
		known = bpf_map_lookup_elem(&dirty_pages, &key);
		if (known && (known->mapping != written->mapping || known->index != written->index ||
			      known->range == RANGE_QUEUED))
			known = NULL;
		/*
		 * The earlier writer of the page is unknown, so the page gets no entry. If the folio has an entry, its
		 * owner counts as that writer.
		 */
		if (!known && !written->is_clean)
			return 0;
		if (known && written->is_block_clean && !written->is_written_back &&
		    !remove_sectors(known, key, sectors))
			known = NULL;
	}
	dirtier.own_sectors = sectors;
	/* The write-back is not queued yet, and its data may still include this write. */
	if (known && written->is_written_back)
		known->is_dirty_again = 1;
	/* Changes that the kernel itself makes to a file system's metadata have no owner. */
	if (!(task->flags & PF_KTHREAD))
		state = new_state_of(task);
	if (!state) {
		if (known) {
			known->other_sectors |= sectors;
			known->count = DIRTIERS_MAX;
		} else {
			forget_dirtier(key);
		}
		return 0;
	}
	origin_of(&dirtier.origin, task, state);
	dirtier.origin.flags |= written->flags;
	dirtier.stores = known ? known->stores : written->stores;
	add_unseen_stores(&dirtier, known ? known->origin.time_ns : dirtier.origin.time_ns);
	if (known) {
		known->stores = dirtier.stores;
		add_dirtier(known, key, &dirtier.origin, sectors);
	} else
		bpf_map_update_elem(&dirty_pages, &key, &dirtier, BPF_ANY);
	return 0;
}

/* Maximum time between block_dirty_buffer and writeback_dirty_folio for one write; usually it takes microseconds. */
#define BLOCK_WRITE_NS_MAX 100000ull

static __always_inline struct block_write *block_write(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&block_writes, &zero);
}

/*
 * Returns the sectors of the write that makes the folio dirty, if buffer_dirtied() has just seen that write; 0
 * otherwise.
 */
static __always_inline __u8 sectors_of_block_write(__u64 folio)
{
	struct block_write *last = block_write();
	bool is_last = last && last->folio == folio && last->tid == (__u32)bpf_get_current_pid_tgid() &&
		       bpf_ktime_get_boot_ns() - last->time_ns < BLOCK_WRITE_NS_MAX;

	if (last)
		last->folio = 0;
	return is_last ? last->sectors : 0;
}

/*
 * Returns whether the pages belong to the trees of btrfs, which are in a separate inode. A task that makes these pages
 * dirty is not always their owner: it may commit changes of other tasks. The inode is recognized by its number, because
 * its type is not set.
 */
static __always_inline bool is_btrfs_tree(__u64 mapping)
{
	struct inode *inode = BPF_CORE_READ((struct address_space *)mapping, host);

	return BPF_CORE_READ(inode, i_ino) == BTRFS_TREE_INODE &&
	       BPF_CORE_READ(inode, i_sb, s_magic) == BTRFS_SUPER_MAGIC;
}

/*
 * Remembers the range of the write and returns true, if the task makes the folio dirty by a write whose range is known.
 * The task may also have finished that write and now store through a memory mapping: pages outside the range then have
 * no owner.
 */
static __always_inline bool becomes_dirty_by_range(__u64 folio, __u64 mapping, __u64 pages)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct written_range *range = bpf_task_storage_get(&written_ranges, task, 0, 0);
	struct dirtier dirtier = {.mapping = mapping, .index = folio_index(folio), .count = 1, .range = RANGE_PART};
	struct task_state *state;
	__u64 key = folio | 1;

	/* The size of a large folio is not known on kernels before 6.6. */
	if (!range || !pages || range->mapping != mapping || range->first >= dirtier.index + pages ||
	    range->end <= dirtier.index)
		return false;
	state = new_state_of(task);
	if (!state) {
		forget_dirtier(key);
		return true;
	}
	origin_of(&dirtier.origin, task, state);
	dirtier.origin.time_ns = range->time_ns;
	dirtier.origin.flags |= ORIGIN_AMBIGUOUS;
	if (range->first <= dirtier.index && range->end >= dirtier.index + pages)
		dirtier.range = RANGE_WHOLE;
	bpf_map_update_elem(&dirty_pages, &key, &dirtier, BPF_ANY);
	return true;
}

static __always_inline int folio_becomes_dirty(__u64 folio, __u64 mapping)
{
	__u64 flags = page_flags(folio);
	struct written written = {
	    .key = folio,
	    .mapping = mapping,
	    .index = folio_index(folio),
	    .is_clean = true,
	    .is_written_back = has_page_flag(flags, PG_writeback),
	};
	__u8 sectors = sectors_of_block_write(folio);
	bool by_block = sectors;

	written.sectors = by_block ? sectors : ALL_SECTORS;

	if (has_page_flag(flags, PG_head))
		written.key |= 1;
	if (!by_block && mapping && is_btrfs_tree(mapping)) {
		forget_dirtier(written.key);
		return 0;
	}
	written.stores = stores_of(bpf_get_current_task_btf(), flags);
	if (!by_block && !written.stores &&
	    becomes_dirty_by_range(folio, mapping,
				   has_page_flag(flags, PG_head) ? large_folio_size(folio) / PAGE_SIZE : 1))
		return 0;
	if (has_page_flag(flags, PG_head)) {
		/* buffer_dirtied() records the pages of this folio one by one. */
		if (by_block) {
			forget_dirtier(written.key);
			return 0;
		}
	}
	if (!by_block) {
		__u64 by_range = folio | 1;

		/* The folio may have an old entry from a write whose range was known. */
		if (written.key != by_range)
			bpf_map_delete_elem(&dirty_pages, &by_range);
		written.flags = ORIGIN_AMBIGUOUS;
	}
	return remember_dirtier(&written);
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(folio_dirtied, void *folio, void *mapping)
{
	return folio_becomes_dirty(address_of(folio), address_of(mapping));
}

/* Kernels before 203a31516616 (5.18) have this tracepoint instead of writeback_dirty_folio. */
SEC("tp_btf/writeback_dirty_page")
int BPF_PROG(page_dirtied, void *page, void *mapping)
{
	return folio_becomes_dirty(address_of(page), address_of(mapping));
}

static __always_inline void announce_block_write(__u64 folio, __u8 sectors)
{
	struct block_write *next = block_write();

	if (!next)
		return;
	next->folio = folio;
	next->time_ns = bpf_ktime_get_boot_ns();
	next->tid = (__u32)bpf_get_current_pid_tgid();
	next->sectors = sectors;
}

SEC("tp_btf/block_dirty_buffer")
int BPF_PROG(buffer_dirtied, struct buffer_head *buffer)
{
	__u64 folio = buffer_folio(buffer), flags = page_flags(folio), page = folio, size;
	__u64 data = address_of(buffer->b_data);
	struct written written = {
	    .mapping = (__u64)BPF_CORE_READ((struct page *)folio, mapping),
	    .is_clean = !(buffer->b_state & BH_DIRTY),
	    .is_block_clean = !(buffer->b_state & BH_DIRTY),
	    .is_written_back = has_page_flag(flags, PG_writeback),
	    .sectors = sectors_of(data, buffer->b_size),
	};

	if (!has_page_flag(flags, PG_head)) {
		/* This first write to the page makes the folio dirty next. folio_dirtied() then records the write. */
		if (!has_page_flag(flags, PG_dirty)) {
			announce_block_write(folio, written.sectors);
			return 0;
		}
		written.is_clean = false;
	} else {
		size = large_folio_size(folio);
		if (!size)
			return 0;
		if (!has_page_flag(flags, PG_dirty))
			announce_block_write(folio, written.sectors);
		/* A folio is aligned to its size, both in physical memory and in the kernel's direct mapping. */
		page += (data & (size - 1)) / PAGE_SIZE * bpf_core_type_size(struct page);
		/* Another block of the same page may be dirty although this block is clean. */
		if (written.is_clean && buffer->b_size < PAGE_SIZE && has_page_flag(flags, PG_dirty)) {
			if (bpf_map_lookup_elem(&dirty_pages, &page))
				written.is_clean = false;
			else
				written.flags = ORIGIN_AMBIGUOUS;
		}
	}
	written.key = page;
	written.index = page_index(page, folio);
	written.stores = stores_of(bpf_get_current_task_btf(), flags);
	return remember_dirtier(&written);
}

#endif
