/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Bios as they are queued: by whom, and whose data they carry.
 *
 * Not block_bio_queue: bios are split and merged after it, and half of the bytes of large I/O had no match.
 */
#include "bio.bpf.h"
#include "filter.bpf.h"
#include "kernel_compat.bpf.h"

/* Pages of a bio that are looked at. A request takes 4 MiB by default in Linux 6.18 (BLK_DEF_MAX_SECTORS_CAP). */
#define PAGE_WALK_MAX 2048

/* A walk over the pages of a bio that is being queued. */
struct page_walk {
	struct bio_owner owner;
	/* The vector that it is in, bytes done of that, and bytes left of the bio. */
	__u64 vector;
	__u32 done;
	__u32 left;
	/* The folio of the page before, and whose it is. */
	__u64 folio;
	struct event_origin origin;
	/* Of a page that nobody is known to have made dirty: by direct I/O it is the queueing task's. */
	struct event_origin uncached;
	struct event_origin unknown;
	__u32 unknown_bytes;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct page_walk);
} page_walks SEC(".maps");

/* Adds bytes to an owner's share. A global function is verified once, not at each of its calls. */
__noinline int add_origin(struct bio_owner *to, const struct event_origin *added, __u32 bytes)
{
	if (!to || !added)
		return 0;
	for (__u32 slot = 0; slot < ORIGINS_MAX; slot++) {
		struct event_origin *origin;

		/* Clang would go on with a sum that the verifier has lost the bounds of. */
		barrier_var(slot);
		origin = &to->origins[slot & (ORIGINS_MAX - 1)];
		if (slot >= to->origin_count) {
			*origin = *added;
			origin->bytes = bytes;
			to->origin_count = slot + 1;
			return 0;
		}
		if (is_same_owner(origin, added)) {
			origin->bytes += bytes;
			return 0;
		}
	}
	to->origin_count = ORIGINS_MAX + 1;
	return 0;
}

/*
 * Whether a page is written back for its file. A file's page may also be the memory that direct I/O writes from, as
 * shared memory is. The flags come first in a page, as a number or in a struct: 6.18 has memdesc_flags_t.
 */
static __always_inline bool is_written_back(__u64 page)
{
	__u64 flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)page);
	return flags & 1ull << bpf_core_enum_value(enum pageflags, PG_writeback);
}

/* Takes the next page of the walk; 0 at the end. In the map, not in registers: see copy_variable(). */
__noinline int walk_page(void)
{
	__u32 zero = 0, length, at, bytes;
	struct page_walk *walk = bpf_map_lookup_elem(&page_walks, &zero);
	struct dirtier *dirtier;
	struct bio_vec *vector;
	__u64 folio, mapping;

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
	folio = (__u64)BPF_CORE_READ(vector, bv_page) + at / PAGE_SIZE * bpf_core_type_size(struct page);
	folio = folio_of((struct page *)folio);
	if (folio != walk->folio) {
		walk->folio = folio;
		mapping = (__u64)BPF_CORE_READ((struct page *)folio, mapping);
		dirtier = bpf_map_lookup_elem(&dirty_folios, &folio);
		if (dirtier && dirtier->mapping == mapping)
			walk->origin = dirtier->origin;
		else if (is_written_back(folio))
			walk->origin = walk->unknown;
		else
			walk->origin = walk->uncached;
	}
	if (is_same_owner(&walk->origin, &walk->unknown))
		walk->unknown_bytes += bytes;
	else
		add_origin(&walk->owner, &walk->origin, bytes);
	walk->left -= bytes;
	walk->done += bytes;
	if (walk->done == length) {
		walk->done = 0;
		walk->vector += bpf_core_type_size(struct bio_vec);
	}
	return 1;
}

static __always_inline void add_journal_owners(struct page_walk *walk, struct journal_owners *owners)
{
	if (owners->count == 1) {
		add_origin(&walk->owner, &owners->owners[0], walk->unknown_bytes);
		return;
	}
	/* How much of it is whose is not known. */
	for (__u32 slot = 0; slot < ORIGINS_MAX && slot < owners->count; slot++)
		add_origin(&walk->owner, &owners->owners[slot], 0);
	if (owners->count > ORIGINS_MAX)
		walk->owner.origin_count = ORIGINS_MAX + 1;
}

/* Whose data a bio writes. */
static __always_inline void find_origins(struct page_walk *walk, struct bio *bio, struct task_struct *task,
					 struct task_state *state)
{
	struct journal_owners *owners = NULL;

	walk->vector = (__u64)BPF_CORE_READ(bio, bi_io_vec) +
		       BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec);
	walk->done = bytes_done_in_vector(bio);
	walk->folio = 0;
	walk->unknown_bytes = 0;
	__builtin_memset(&walk->unknown, 0, sizeof(walk->unknown));
	/* A task that frees memory, as kernel threads do, writes what is not its own. */
	if (task->flags & PF_KTHREAD)
		walk->unknown.process_id = walk->owner.queuer.process_id;
	if (task->flags & (PF_KTHREAD | PF_MEMALLOC))
		walk->uncached = walk->unknown;
	for (int i = 0; i < PAGE_WALK_MAX; i++)
		if (!walk_page())
			break;
	walk->unknown_bytes += walk->left;
	if (state->journal_transaction) {
		__u64 key = state->journal_transaction;

		owners = bpf_map_lookup_elem(&journal_owners, &key);
	}
	if (owners && owners->count && (walk->unknown_bytes || !walk->owner.origin_count))
		add_journal_owners(walk, owners);
	else if (walk->unknown_bytes || !walk->owner.origin_count)
		add_origin(&walk->owner, &walk->unknown, walk->unknown_bytes);
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

/* By the task that queues it, and by whose data it carries. */
static __always_inline bool is_wanted_bio(const struct filter_settings *filter, struct task_struct *task,
					  const struct bio_owner *owner)
{
	__u64 context_id = owner->queuer.context_id;

	if (!is_wanted_task(filter, task))
		return false;
	for (__u32 slot = 0; slot < ORIGINS_MAX && slot < owner->origin_count; slot++)
		context_id |= owner->origins[slot].context_id;
	return is_wanted_owner(filter, task, context_id);
}

static __always_inline int queue_bio(struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct filter_settings *settings;
	struct task_state *state;
	__u64 key = (__u64)bio;
	struct page_walk *walk;
	__u32 zero = 0;

	/* Whoever had a bio at this address before, it is over. */
	bpf_map_delete_elem(&bio_owners, &key);
	settings = filter();
	if (task->tgid == agent_tgid || !settings || !has_type(settings, EVENT_BLOCK_IO))
		return 0;
	state = new_state_of(task);
	walk = bpf_map_lookup_elem(&page_walks, &zero);
	if (!state || !walk) {
		count_loss(EVENT_BLOCK_IO, LOSS_NO_MEMORY);
		return 0;
	}
	origin_of(&walk->uncached, task, state);
	describe_queuer(&walk->owner.queuer, bio, task, &walk->uncached);
	walk->owner.origin_count = 0;
	walk->left = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (!dirty_page_layer || !writes_data(BPF_CORE_READ(bio, bi_opf)) ||
	    (!walk->left && !state->journal_transaction))
		add_origin(&walk->owner, &walk->uncached, walk->left);
	else
		find_origins(walk, bio, task, state);
	walk->owner.queuer.is_wanted = is_wanted_bio(settings, task, &walk->owner);
	if (bpf_map_update_elem(&bio_owners, &key, &walk->owner, BPF_ANY))
		count_loss(EVENT_BLOCK_IO, LOSS_NO_MEMORY);
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
