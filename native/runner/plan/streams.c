#include "plan/streams.h"

#include <stdlib.h>
#include <string.h>

#include "identify/keys.h"
#include "seccomp/syscalls.h"

/* A key of a table: a text and the number of its owner. */
struct named {
	uint32_t owner;
	uint32_t number;
	char text[KEY_MAX];
};

static size_t named_bytes(const struct named *named)
{
	return offsetof(struct named, text) + strlen(named->text);
}

/* No thread has this number: PID_MAX_LIMIT is 1 << 22. */
#define ANY_THREAD_OF_GROUP UINT32_MAX

/* State used only while the streams are built. */
struct making {
	struct streams *streams;
	struct table slot_by_key;
	uint32_t *slot_of_plan_slot, *stream_of_plan_slot;
	uint32_t *filled; /* by slot */
};

/* The kinds of calls that groups consist of, in addition to the file. */
enum calls { WRITES, SYNCS, MSYNCS_WITHOUT_FILE };

static uint32_t find_group(const struct streams *streams, enum calls calls, const char *file_key)
{
	struct named key = {.owner = calls};

	strncpy(key.text, file_key, KEY_MAX - 1);
	return table_get(&streams->group_by_key, &key, named_bytes(&key));
}

uint32_t streams_group(const struct streams *streams, bool is_sync, const char *file_key)
{
	return find_group(streams, is_sync ? SYNCS : WRITES, file_key);
}

uint32_t streams_group_of_msyncs(const struct streams *streams)
{
	return find_group(streams, MSYNCS_WITHOUT_FILE, "");
}

uint32_t streams_group_of_role(const struct streams *streams, bool is_sync, bool has_file, const char *role)
{
	for (uint32_t i = 0; i < streams->stream_count; i++) {
		const struct stream *stream = &streams->streams[i];
		const struct group *group = &streams->groups[stream->group];

		if (group->is_sync == is_sync && !(group->any_flags & EVENT_FLAG_RULED_BY_PATH) &&
		    (has_file || group->all_flags & EVENT_FLAG_DERIVED) && strcmp(stream->role, role) == 0)
			return stream->group;
	}
	return NONE;
}

uint32_t streams_stream(const struct streams *streams, uint32_t group, const char *role)
{
	struct named key = {.owner = group};

	strncpy(key.text, role, KEY_MAX - 1);
	return table_get(&streams->stream_by_key, &key, named_bytes(&key));
}

bool streams_is_for_others(const struct streams *streams, uint32_t event, uint32_t own)
{
	return streams->plan->events[event].flags & EVENT_FLAG_RULED_BY_THREAD &&
	       streams->stream_of_event[event] != own;
}

static uint32_t add_group(struct making *making, const struct plan_stream *of)
{
	struct streams *streams = making->streams;
	const bool is_of_a_file = *plan_string(streams->plan, of->path) != 0;
	struct named key = {
	    .owner = !op_is_sync(of->op)                   ? WRITES
		     : of->op == OP_MSYNC && !is_of_a_file ? MSYNCS_WITHOUT_FILE
							   : SYNCS,
	};

	key_of_file(of->path_kind, plan_string(streams->plan, of->path), key.text);
	const uint32_t known = table_get(&streams->group_by_key, &key, named_bytes(&key));
	if (known != NOT_IN_TABLE)
		return known;
	const uint32_t index = streams->group_count;
	streams->has_cut_paths |= strncmp(key.text, ".../", 4) == 0;
	streams->groups[index] = (struct group){
	    .is_sync = op_is_sync(of->op),
	    .path_kind = of->path_kind,
	    .file = strdup(key.text),
	    .first_stream = NONE,
	    .is_in_order = of->flags & STREAM_FLAG_IN_ORDER,
	    .all_flags = UINT16_MAX,
	};
	if (!streams->groups[index].file || !table_put(&streams->group_by_key, &key, named_bytes(&key), index))
		return NONE;
	streams->group_count++;
	return index;
}

static uint32_t add_stream(struct making *making, uint32_t group, const char *comm)
{
	struct streams *streams = making->streams;
	struct named key = {.owner = group};

	key_of_comm(comm, key.text);
	const uint32_t known = table_get(&streams->stream_by_key, &key, named_bytes(&key));
	if (known != NOT_IN_TABLE)
		return known;
	const uint32_t index = streams->stream_count;
	streams->streams[index] = (struct stream){.group = group, .role = strdup(key.text)};
	if (!streams->streams[index].role || !table_put(&streams->stream_by_key, &key, named_bytes(&key), index))
		return NONE;
	if (streams->groups[group].first_stream == NONE)
		streams->groups[group].first_stream = index;
	else
		streams->groups[group].has_roles = true;
	streams->stream_count++;
	return index;
}

static uint32_t add_slot(struct making *making, uint32_t stream, const struct plan_slot *of)
{
	struct streams *streams = making->streams;
	const uint32_t group = streams->streams[stream].group;
	struct named key = {.owner = stream, .number = of->tid};

	if (streams->groups[group].is_in_order)
		key = (struct named){.owner = group, .number = ANY_THREAD_OF_GROUP};
	else
		strncpy(key.text, plan_string(streams->plan, of->comm), KEY_MAX - 1);
	uint32_t index = table_get(&making->slot_by_key, &key, named_bytes(&key));
	if (index == NOT_IN_TABLE) {
		index = streams->slot_count;
		if (!table_put(&making->slot_by_key, &key, named_bytes(&key), index))
			return NONE;
		streams->slots[index] = (struct slot){
		    .group = streams->streams[stream].group,
		    .stream = stream,
		    .tid = of->tid,
		    .comm = plan_string(streams->plan, of->comm),
		    .begins_ns = UINT64_MAX,
		};
		streams->slot_count++;
	}
	struct slot *slot = &streams->slots[index];
	const uint64_t begins_ns = streams->plan->events[of->first_event].offset_ns;
	slot->count += of->event_count;
	slot->plan_slots++;
	if (begins_ns < slot->begins_ns)
		slot->begins_ns = begins_ns;
	streams->streams[stream].event_count += of->event_count;
	return index;
}

static bool name_all(struct making *making)
{
	struct streams *streams = making->streams;
	const struct plan *plan = streams->plan;

	for (uint32_t i = 0; i < plan->header->stream_count; i++) {
		const struct plan_stream *from = &plan->streams[i];
		const uint32_t end = from->first_slot + from->slot_count;

		for (uint32_t j = from->first_slot; j < end; j++) {
			const struct plan_slot *slot = &plan->slots[j];

			if (slot->event_count == 0 || making->slot_of_plan_slot[j] != NONE)
				continue;
			const uint32_t group = add_group(making, from);
			const uint32_t stream =
			    group == NONE ? NONE : add_stream(making, group, plan_string(plan, slot->comm));
			making->stream_of_plan_slot[j] = stream;
			making->slot_of_plan_slot[j] = stream == NONE ? NONE : add_slot(making, stream, slot);
			if (making->slot_of_plan_slot[j] == NONE)
				return false;
		}
	}
	return true;
}

/* This is global because qsort() takes no context. Plans are loaded on one thread. */
static const struct plan_event *sorted_events;

static int by_offset(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const uint64_t a_ns = sorted_events[a].offset_ns, b_ns = sorted_events[b].offset_ns;

	return a_ns != b_ns ? (a_ns > b_ns) - (a_ns < b_ns) : (a > b) - (a < b);
}

static void note_flags(struct group *group, uint16_t flags)
{
	group->any_flags |= flags;
	group->all_flags &= flags;
	group->has_roles |= (flags & EVENT_FLAG_RULED_BY_THREAD) != 0;
}

static void place_events(struct making *making, uint32_t plan_slot)
{
	struct streams *streams = making->streams;
	const struct plan_slot *from = &streams->plan->slots[plan_slot];
	const uint32_t index = making->slot_of_plan_slot[plan_slot];

	if (index == NONE)
		return;
	const struct slot *slot = &streams->slots[index];
	for (uint32_t i = 0; i < from->event_count; i++) {
		const uint32_t event = from->first_event + i;

		streams->order[slot->first + making->filled[index]++] = event;
		streams->stream_of_event[event] = making->stream_of_plan_slot[plan_slot];
		note_flags(&streams->groups[slot->group], streams->plan->events[event].flags);
	}
}

/* A bit for each remainder of the sizes' hashes. */
#define SIZES_BITS 4096

static uint32_t count_sizes(const struct streams *streams, const struct slot *slot)
{
	uint64_t seen[SIZES_BITS / 64] = {0};
	uint32_t count = 0;

	for (uint32_t i = slot->first; i < slot->first + slot->count; i++) {
		const uint32_t size = streams->plan->events[streams->order[i]].size;
		const uint32_t bit = size * 0x9e3779b1u >> 20;

		count += !(seen[bit / 64] >> bit % 64 & 1);
		seen[bit / 64] |= 1ull << bit % 64;
	}
	return count;
}

static void order_events(struct making *making)
{
	struct streams *streams = making->streams;
	uint32_t next = 0;

	for (uint32_t i = 0; i < streams->slot_count; i++) {
		streams->slots[i].first = next;
		next += streams->slots[i].count;
	}
	streams->placed_count = next;
	for (uint32_t i = 0; i < streams->plan->header->slot_count; i++)
		place_events(making, i);
	sorted_events = streams->plan->events;
	for (uint32_t i = 0; i < streams->slot_count; i++) {
		struct slot *slot = &streams->slots[i];

		slot->size_count = count_sizes(streams, slot);
		if (slot->plan_slots > 1)
			qsort(streams->order + slot->first, slot->count, sizeof(*streams->order), by_offset);
	}
}

static int by_group_and_beginning(const void *left, const void *right)
{
	const struct slot *a = left, *b = right;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->begins_ns != b->begins_ns)
		return a->begins_ns < b->begins_ns ? -1 : 1;
	return (a->first > b->first) - (a->first < b->first);
}

static void order_slots(struct streams *streams)
{
	qsort(streams->slots, streams->slot_count, sizeof(*streams->slots), by_group_and_beginning);
	for (uint32_t i = 0; i < streams->slot_count; i++) {
		struct group *group = &streams->groups[streams->slots[i].group];
		if (group->slot_count++ == 0)
			group->first_slot = i;
	}
}

static bool order_sizes(struct streams *streams)
{
	uint32_t *pool_of_stream = malloc((streams->stream_count + 1ul) * sizeof(*pool_of_stream));

	if (!pool_of_stream)
		return false;
	for (uint32_t i = 0; i < streams->stream_count; i++)
		pool_of_stream[i] = i;
	const bool is_made = size_pools_make(&streams->sizes, streams, pool_of_stream, streams->stream_count, 0);
	free(pool_of_stream);
	return is_made;
}

static bool make(struct making *making)
{
	if (!name_all(making))
		return false;
	making->filled = calloc(making->streams->slot_count + 1, sizeof(*making->filled));
	if (!making->filled)
		return false;
	order_events(making);
	order_slots(making->streams);
	return order_sizes(making->streams);
}

bool streams_make(struct streams *streams, const struct plan *plan)
{
	/* The plan's number of slots is enough for each of these arrays. */
	const size_t slots = plan->header->slot_count + 1ul, events = plan->header->event_count + 1ul;
	struct making making = {.streams = streams};

	*streams = (struct streams){
	    .plan = plan,
	    .groups = calloc(slots, sizeof(*streams->groups)),
	    .streams = calloc(slots, sizeof(*streams->streams)),
	    .slots = calloc(slots, sizeof(*streams->slots)),
	    .order = calloc(events, sizeof(*streams->order)),
	    .stream_of_event = calloc(events, sizeof(*streams->stream_of_event)),
	};
	making.slot_of_plan_slot = malloc(slots * sizeof(*making.slot_of_plan_slot));
	making.stream_of_plan_slot = malloc(slots * sizeof(*making.stream_of_plan_slot));
	bool is_made = streams->groups && streams->streams && streams->slots && streams->order &&
		       streams->stream_of_event && making.slot_of_plan_slot && making.stream_of_plan_slot;
	if (is_made) {
		memset(making.slot_of_plan_slot, 0xff, slots * sizeof(*making.slot_of_plan_slot));
		is_made = make(&making);
	}
	table_clear(&making.slot_by_key);
	free(making.slot_of_plan_slot);
	free(making.stream_of_plan_slot);
	free(making.filled);
	return is_made;
}

void streams_free(struct streams *streams)
{
	for (uint32_t i = 0; i < streams->group_count; i++)
		free(streams->groups[i].file);
	for (uint32_t i = 0; i < streams->stream_count; i++)
		free(streams->streams[i].role);
	free(streams->groups);
	free(streams->streams);
	free(streams->slots);
	free(streams->order);
	free(streams->stream_of_event);
	size_pools_free(&streams->sizes);
	table_clear(&streams->group_by_key);
	table_clear(&streams->stream_by_key);
}
