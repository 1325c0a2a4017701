/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records, for each bio that is queued, which task queues it and which tasks own its data.
 *
 * The hooks are not on block_bio_queue: bios are split and merged after that tracepoint, so half of the bytes of large
 * I/O would match no bio that was seen there.
 */
#ifndef KREPLAY_BIO_BPF_H
#define KREPLAY_BIO_BPF_H

#include "bio_owner.bpf.h"
#include "iomap_write.bpf.h"
#include "filter.bpf.h"
#include "journal.bpf.h"

/*
 * Maximum number of pages of one bio that the program examines. A request takes up to 4 MiB by default in Linux 6.18
 * (BLK_DEF_MAX_SECTORS_CAP).
 */
#define PAGE_WALK_MAX 2048

/* State of a walk over the pages of a bio that is being queued. */
struct page_walk {
	struct bio_owner owner;
	/* Address of the current vector. */
	__u64 vector;
	/* Number of the vector's bytes that were walked. */
	__u32 done;
	/* Number of the bio's bytes that are still to be walked. */
	__u32 left;
	/* The task that queues the bio. It owns the data that it writes by direct I/O. */
	struct event_origin queuer;
	struct event_origin unknown;
	/* Bytes of file data with an unknown owner. */
	__u32 unknown_bytes;
	/* Bytes of the file system's own metadata. */
	__u32 metadata_bytes;
	/* Bytes of files that processes have mapped into memory: any of these processes may have stored the bytes. */
	__u32 replaced_bytes;
	__u32 device;
	/* The task is a kernel thread or reclaims memory, so the data that it writes belongs to other tasks. */
	__u32 is_kernel;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct page_walk);
} page_walks SEC(".maps");

struct bio_page {
	__u64 page;
	__u64 folio;
	__u64 mapping;
	__u64 index;
};

static __always_inline bool is_dirtier_of(const struct dirtier *dirtier, const struct bio_page *at, __u64 index)
{
	return dirtier && dirtier->mapping == at->mapping && dirtier->index == index;
}

/*
 * Returns the page's entry with this key, or NULL. An entry in queued_pages counts only if its write-back was queued on
 * another disk of a mirror: on the same disk, the entry belongs to an earlier write-back.
 */
static __always_inline struct dirtier *dirtier_at(const __u64 *key, const struct bio_page *at, __u32 device)
{
	struct dirtier *dirtier = bpf_map_lookup_elem(&dirty_pages, key);

	if (is_dirtier_of(dirtier, at, at->index))
		return dirtier;
	dirtier = bpf_map_lookup_elem(&queued_pages, key);
	return is_dirtier_of(dirtier, at, at->index) && dirtier->device != device ? dirtier : NULL;
}

/*
 * Returns the dirtier of a page, or NULL. The page is in a folio that a write with a known range made dirty. Sets
 * `since_ns` to the time of that write: earlier data was already written back or discarded.
 */
static __always_inline struct dirtier *dirtier_by_range(struct dirtier *of_folio, const struct bio_page *at,
							__u32 device, __u64 *key, __u64 *since_ns)
{
	struct dirtier *dirtier;

	*since_ns = of_folio->origin.time_ns;
	*key = place_key(at->mapping, at->index);
	dirtier = dirtier_at(key, at, device);
	if (dirtier)
		return dirtier;
	*key = at->folio | 1;
	return of_folio->range == RANGE_WHOLE ? of_folio : NULL;
}

/* Adds the owner of a later write with a known range to a page that a store made dirty. */
static __always_inline void add_later_write(struct dirtier *dirtier, const __u64 *key, const struct bio_page *at,
					    __u32 device)
{
	__u64 place = place_key(at->mapping, at->index);
	struct dirtier *later = dirtier_at(&place, at, device);

	if (later && later->origin.time_ns > dirtier->origin.time_ns)
		add_dirtier(dirtier, *key, &later->origin, ALL_SECTORS);
}

/*
 * Returns the dirtier of a file's page that waits for write-back, or NULL if the dirtier is unknown. Sets `key` to the
 * key of the dirtier's entry.
 */
static __always_inline struct dirtier *dirtier_of(const struct bio_page *at, __u32 device, __u64 *key, __u64 *since_ns)
{
	__u64 folio_index = at->index - (at->page - at->folio) / bpf_core_type_size(struct page);
	struct dirtier *dirtier, *of_folio;

	*key = at->folio | 1;
	of_folio = bpf_map_lookup_elem(&dirty_pages, key);
	if (!is_dirtier_of(of_folio, at, folio_index))
		of_folio = NULL;
	if (of_folio && of_folio->range)
		return dirtier_by_range(of_folio, at, device, key, since_ns);
	*key = at->page;
	dirtier = dirtier_at(key, at, device);
	if (dirtier && dirtier->stores == STORES_OWN)
		add_later_write(dirtier, key, at, device);
	/* The page may belong to a large folio that became dirty as a whole. */
	if (of_folio && (!dirtier || of_folio->origin.time_ns > dirtier->origin.time_ns)) {
		*key = at->folio | 1;
		return of_folio;
	}
	return dirtier;
}

/*
 * Moves a page whose write-back is queued from dirty_pages to queued_pages, so that dirty_pages keeps its room for
 * pages that still wait.
 */
static __always_inline void count_queued(struct dirtier *dirtier, __u64 *key, __u8 sectors, __u32 device)
{
	__u8 dirty = dirtier->own_sectors | dirtier->second_sectors | dirtier->other_sectors;

	dirtier->queued_sectors |= sectors;
	/* The entry of a large folio stays: it is unknown which pages of the folio still wait for write-back. */
	if (*key & 1)
		return;
	/*
	 * The kernel does not show which blocks of the page are dirty, but it queues all of them at once. So the whole
	 * page counts as queued.
	 */
	if (is_place_key(*key))
		dirtier->range = RANGE_QUEUED;
	if (dirty & ~dirtier->queued_sectors)
		return;
	dirtier->device = device;
	bpf_map_update_elem(&queued_pages, key, dirtier, BPF_ANY);
	if (!dirtier->is_dirty_again) {
		bpf_map_delete_elem(&dirty_pages, key);
		return;
	}
	dirtier->queued_sectors = 0;
	dirtier->is_dirty_again = 0;
}

static __always_inline __u32 bytes_of_sectors(__u8 sectors)
{
	__u32 bytes = 0;

	for (int bit = 0; bit < 8; bit++)
		bytes += (sectors >> bit & 1) << 9;
	return bytes;
}

/* Adds the dirtiers of a page to the owners of the bio, except those that wrote before `since_ns`. */
static __always_inline void add_dirtiers(struct page_walk *walk, struct dirtier *dirtier, __u64 *key, __u32 bytes,
					 __u8 sectors, __u64 since_ns)
{
	__u8 own = dirtier->own_sectors & sectors, of_second = dirtier->second_sectors & sectors;
	bool is_since = dirtier->origin.time_ns >= since_ns;
	struct event_origin *second;

	/*
	 * The known writers of the page are named but get no bytes, because any process that has mapped the file may
	 * have replaced their data.
	 */
	if (dirtier->stores == STORES_UNSEEN) {
		walk->replaced_bytes += bytes;
		bytes = own = of_second = 0;
	}
	if (dirtier->count == 1) {
		if (is_since)
			add_origin(&walk->owner, &dirtier->origin, bytes);
		else
			walk->unknown_bytes += bytes;
		return;
	}
	second = dirtier->count == 2 ? bpf_map_lookup_elem(&dirty_with, key) : NULL;
	if (!is_since && second && second->time_ns >= since_ns) {
		add_origin(&walk->owner, second, bytes);
		return;
	}
	/*
	 * If both owners wrote to a block, it is unknown how many of its bytes belong to each owner. Neither owner gets
	 * these bytes.
	 */
	if (is_since && (own || !of_second))
		add_origin(&walk->owner, &dirtier->origin, second ? bytes_of_sectors(own & ~of_second) : 0);
	if (second && (of_second || !own))
		add_origin(&walk->owner, second, bytes_of_sectors(of_second & ~own));
	if (!second)
		walk->owner.has_others = 1;
}

/* Returns whether the page is anonymous or shared memory, which a file system never writes back. */
static __always_inline bool is_memory(__u64 mapping, __u64 flags)
{
	return mapping & PAGE_MAPPING_ANON || has_page_flag(flags, PG_swapbacked);
}

/*
 * Adds a page of the bio to the shares of its owners. A page that is not under write-back contains metadata of the file
 * system, such as its log, and may be written by any task.
 */
static __always_inline void add_page(struct page_walk *walk, __u64 page, __u32 bytes, __u8 sectors)
{
	__u64 folio = folio_of((struct page *)page), flags = page_flags(folio), key;
	struct bio_page at = {.page = page, .folio = folio};
	bool is_written_back = has_page_flag(flags, PG_writeback);
	struct dirtier *dirtier = NULL;
	__u64 since_ns = 0;

	at.mapping = (__u64)BPF_CORE_READ((struct page *)folio, mapping);
	if (!walk->is_kernel && is_memory(at.mapping, flags)) {
		add_origin(&walk->owner, &walk->queuer, bytes);
		return;
	}
	if (!at.mapping && has_page_flag(flags, PG_private)) {
		/* This is an encrypted copy, which points to the original page or its folio: fs/crypto/crypto.c. */
		page = BPF_CORE_READ((struct page *)page, private);
		folio = folio_of((struct page *)page);
		at = (struct bio_page){page, folio, (__u64)BPF_CORE_READ((struct page *)folio, mapping), 0};
		is_written_back = has_page_flag(page_flags(folio), PG_writeback);
	}
	if (!is_written_back) {
		walk->metadata_bytes += bytes;
		return;
	}
	if (at.mapping && !(at.mapping & PAGE_MAPPING_FLAGS)) {
		at.index = page_index(page, folio);
		dirtier = dirtier_of(&at, walk->device, &key, &since_ns);
	}
	if (!dirtier) {
		walk->unknown_bytes += bytes;
		return;
	}
	add_unseen_stores(dirtier, dirtier->origin.time_ns);
	add_dirtiers(walk, dirtier, &key, bytes, sectors, since_ns);
	count_queued(dirtier, &key, sectors, walk->device);
}

/*
 * Processes the next page of the walk; returns 0 at the end. The state is in the map, not in registers: see
 * copy_variable().
 */
__noinline int walk_page(void)
{
	__u32 zero = 0, length, at, bytes;
	struct page_walk *walk = bpf_map_lookup_elem(&page_walks, &zero);
	struct bio_vec *vector;

	if (!walk || !walk->left)
		return 0;
	vector = (struct bio_vec *)walk->vector;
	length = BPF_CORE_READ(vector, bv_len);
	at = BPF_CORE_READ(vector, bv_offset) + walk->done;
	bytes = PAGE_SIZE - at % PAGE_SIZE;
	if (bytes > length - walk->done)
		bytes = length - walk->done;
	if (!bytes)
		return 0;
	if (bytes > walk->left)
		bytes = walk->left;
	add_page(walk, (__u64)BPF_CORE_READ(vector, bv_page) + at / PAGE_SIZE * bpf_core_type_size(struct page), bytes,
		 sectors_of(at, bytes));
	walk->left -= bytes;
	walk->done += bytes;
	if (walk->done == length) {
		walk->done = 0;
		walk->vector += bpf_core_type_size(struct bio_vec);
	}
	return 1;
}

static STEP(walk_next_page, __u32 i, void *context)
{
	return !walk_page();
}

static __always_inline void add_journal_owners(struct page_walk *walk, struct journal_owners *owners)
{
	if (owners->count == 1 && !owners->others) {
		add_origin(&walk->owner, &owners->owners[0], walk->metadata_bytes);
		return;
	}
	/* 0 bytes mean that the owner's share is unknown. */
	for (__u32 slot = 0; slot < ORIGIN_SLOTS && slot < owners->count; slot++)
		add_origin(&walk->owner, &owners->owners[slot], 0);
	if (owners->others || owners->count > ORIGIN_SLOTS)
		walk->owner.has_others = 1;
}

/*
 * Returns whether the bio is direct I/O. A bio that bio_split() has split off lacks the flag, but has the same vectors
 * as the remaining bio, which bio_chain() stores in its `bi_private`.
 */
static __always_inline bool is_direct_bio(struct bio *bio)
{
	struct bio *left = BPF_CORE_READ(bio, bi_private);
	struct bio_vec *vectors = BPF_CORE_READ(bio, bi_io_vec);

	if (BPF_CORE_READ(bio, bi_flags) & BIO_DIRECT)
		return true;
	return left && vectors == BPF_CORE_READ(left, bi_io_vec) && BPF_CORE_READ(left, bi_flags) & BIO_DIRECT;
}

/*
 * Attributes direct I/O to the task that queues it, without examining its pages, of which there may be hundreds. A page
 * may belong to a file and have been made dirty by another task, but direct I/O does not write it back. If a kernel
 * thread queues the bio, it is unknown which task's data it writes.
 */
static __always_inline void queue_direct(struct page_walk *walk)
{
	if (walk->is_kernel)
		return;
	add_origin(&walk->owner, &walk->queuer, walk->left);
	walk->left = 0;
}

/* Finds the owners of the data that a bio writes. */
static __always_inline void find_origins(struct page_walk *walk, struct bio *bio, struct task_struct *task,
					 struct task_state *state)
{
	struct journal_owners *owners = NULL;

	walk->vector = (__u64)BPF_CORE_READ(bio, bi_io_vec) +
		       BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec);
	walk->done = bytes_done_in_vector(bio);
	walk->unknown_bytes = 0;
	walk->metadata_bytes = 0;
	walk->replaced_bytes = 0;
	walk->device = BPF_CORE_READ(bio, bi_bdev, bd_dev);
	walk->is_kernel = task->flags & (PF_KTHREAD | PF_MEMALLOC);
	__builtin_memset(&walk->unknown, 0, sizeof(walk->unknown));
	if (task->flags & PF_KTHREAD)
		walk->unknown.process_id = walk->owner.queuer.process_id;
	if (is_direct_bio(bio)) {
		queue_direct(walk);
	} else {
		REPEAT(PAGE_WALK_MAX, walk_next_page, NULL);
	}
	walk->unknown_bytes += walk->left;
	if (state->journal_transaction) {
		__u64 key = state->journal_transaction;

		owners = bpf_map_lookup_elem(&journal_owners, &key);
	}
	/*
	 * A bio of the journal belongs to the journal's owners if it writes metadata or is a flush without data. File
	 * data that a commit writes before its own blocks (data=ordered) does not belong to all tasks that take part in
	 * the commit.
	 */
	if (owners && owners->count && (walk->metadata_bytes || !(walk->owner.origin_count || walk->unknown_bytes)))
		add_journal_owners(walk, owners);
	else
		walk->unknown_bytes += walk->metadata_bytes;
	if (walk->unknown_bytes || !walk->owner.origin_count)
		add_origin(&walk->owner, &walk->unknown, walk->unknown_bytes);
	if (walk->replaced_bytes) {
		__builtin_memset(&walk->unknown, 0, sizeof(walk->unknown));
		add_origin(&walk->owner, &walk->unknown, walk->replaced_bytes);
	}
}

static __always_inline void describe_queuer(struct bio_queuer *queuer, struct bio *bio, struct task_struct *task,
					    const struct event_origin *own)
{
	queuer->queued_ns = own->time_ns;
	queuer->context_id = own->context_id;
	queuer->process_id = own->process_id;
	queuer->flags = own->flags;
	queuer->cgroup_id = 0;
	if (block_cgroup_layer && bpf_core_field_exists(bio->bi_blkg))
		queuer->cgroup_id = BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup, kn, id);
	queuer->pid = task->tgid;
	queuer->tid = task->pid;
	copy_comm(queuer->comm, task);
}

/* Applies the filter to the task that queues the bio and to the owners of its data. */
static __always_inline bool is_wanted_bio(const struct filter_settings *filter, struct task_struct *task,
					  const struct bio_owner *owner)
{
	__u64 context_id = owner->queuer.context_id;

	if (!is_wanted_task(filter, task))
		return false;
	for (__u32 slot = 0; slot < ORIGIN_SLOTS && slot < owner->origin_count; slot++)
		context_id |= owner->origins[slot].context_id;
	return is_wanted_owner(filter, owner->queuer.process_id, context_id);
}

static __always_inline int queue_bio(struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct filter_settings *settings;
	struct task_state *state;
	__u64 key = (__u64)bio;
	struct page_walk *walk;
	__u32 zero = 0;

	/* An entry at this address belongs to an earlier bio. */
	forget_bio(&key);
	settings = filter();
	if (task->tgid == agent_tgid || !settings || !has_type(settings, EVENT_BLOCK_IO))
		return 0;
	state = new_state_of(task);
	walk = bpf_map_lookup_elem(&page_walks, &zero);
	if (!state || !walk) {
		count_loss(EVENT_BLOCK_IO, LOSS_NO_MEMORY);
		return 0;
	}
	origin_of(&walk->queuer, task, state);
	describe_queuer(&walk->owner.queuer, bio, task, &walk->queuer);
	walk->owner.origin_count = 0;
	walk->owner.has_others = 0;
	walk->left = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (!dirty_page_layer || !writes_data(BPF_CORE_READ(bio, bi_opf)) ||
	    (!walk->left && !state->journal_transaction))
		add_origin(&walk->owner, &walk->queuer, walk->left);
	else
		find_origins(walk, bio, task, state);
	walk->owner.queuer.is_wanted = is_wanted_bio(settings, task, &walk->owner);
	if (bpf_map_update_elem(&bio_owners, &key, &walk->owner, BPF_ANY))
		count_loss(EVENT_BLOCK_IO, LOSS_NO_MEMORY);
	else
		count_requests_known(1);
	return 0;
}

SEC("tp_btf/block_getrq")
int BPF_PROG(block_getrq, struct bio *bio)
{
	return queue_bio(bio);
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(block_backmerge, struct bio *bio)
{
	return queue_bio(bio);
}

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(block_frontmerge, struct bio *bio)
{
	return queue_bio(bio);
}

#endif
