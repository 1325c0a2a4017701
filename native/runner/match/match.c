#include "match/match.h"

#include <stdlib.h>
#include <string.h>

#include "identify/keys.h"
#include "match/alignment.h"

/* An extra call is treated like the calls within this distance. */
#define NEAR 16
/* A thread with fewer matches among its last calls does something else than was recorded. */
#define HISTORY 64
#define HISTORY_MATCHED_MIN (HISTORY / 2)
#define ENDED_LOOKED_FOR_MAX 64
#define POOLED 0x80000000u

struct match_slot {
	bool is_bound;
	bool is_switched;
	uint32_t tid;
	uint64_t calls;
	uint64_t matched_bits;       /* the last HISTORY calls, the newest in the lowest bit */
	struct alignment *alignment; /* NULL until the first call */
};

bool matcher_make(struct matcher *matcher, const struct streams *streams, enum mode mode, uint64_t seed)
{
	*matcher = (struct matcher){
	    .streams = streams,
	    .mode = mode,
	    .seed = seed,
	    .slots = calloc(streams->slot_count + 1ul, sizeof(*matcher->slots)),
	    .used = calloc(streams->plan->header->event_count / 64 + 1ul, sizeof(*matcher->used)),
	    .pool_ordinals = calloc(streams->stream_count + 1ul, sizeof(*matcher->pool_ordinals)),
	    .returns = calloc(streams->group_count + 1ul, sizeof(*matcher->returns)),
	};
	return matcher->slots && matcher->used && matcher->pool_ordinals && matcher->returns &&
	       syncs_make(&matcher->syncs, streams);
}

void matcher_free(struct matcher *matcher)
{
	for (uint32_t i = 0; matcher->slots && i < matcher->streams->slot_count; i++)
		free(matcher->slots[i].alignment);
	free(matcher->slots);
	free(matcher->used);
	free(matcher->pool_ordinals);
	free(matcher->returns);
	syncs_free(&matcher->syncs);
	table_clear(&matcher->slot_by_thread);
}

static bool is_used(const struct matcher *matcher, uint32_t place)
{
	return matcher->used[place / 64] >> place % 64 & 1;
}

/* Returns the place that the next call in the slot is expected to match. */
static uint32_t next_place(const struct matcher *matcher, uint32_t index)
{
	const struct slot *slot = &matcher->streams->slots[index];
	const struct alignment *alignment = matcher->slots[index].alignment;
	uint32_t next = alignment ? alignment->next : 0;

	while (next < slot->count && is_used(matcher, slot->first + next))
		next++;
	return next;
}

enum preference { SAME_COMM, SAME_ROLE, ANY_THREAD, PREFERENCE_COUNT };

static bool is_preferred(const struct matcher *matcher, uint32_t index, enum preference preference,
			 const struct observed *call)
{
	const struct slot *slot = &matcher->streams->slots[index];

	if (preference == SAME_COMM)
		return strcmp(slot->comm, call->comm) == 0;
	return preference == ANY_THREAD || strcmp(matcher->streams->streams[slot->stream].role, call->role) == 0;
}

static uint32_t find_slot(struct matcher *matcher, const struct observed *call)
{
	const struct group *group = &matcher->streams->groups[call->group];
	const uint32_t end = group->first_slot + group->slot_count;

	for (enum preference preference = 0; preference < PREFERENCE_COUNT; preference++)
		for (uint32_t i = group->first_slot; i < end; i++)
			if (!matcher->slots[i].is_bound && is_preferred(matcher, i, preference, call))
				return i;
	return NONE;
}

/*
 * Frees the slots of ended threads. Successive short processes are many threads in the recording or here, so a new
 * thread continues where an ended one stopped.
 */
static void unbind_ended(struct matcher *matcher, const struct group *group)
{
	uint32_t looked_for = 0;

	if (!matcher->has_ended)
		return;
	for (uint32_t i = 0; i < group->slot_count && looked_for < ENDED_LOOKED_FOR_MAX; i++) {
		const uint32_t index = group->first_slot + i;

		if (next_place(matcher, index) == matcher->streams->slots[index].count)
			continue;
		looked_for++;
		if (matcher->has_ended(matcher->slots[index].tid))
			matcher->slots[index].is_bound = false;
	}
}

static uint32_t stream_of_pool(const struct matcher *matcher, uint32_t group, const char *role)
{
	const struct streams *streams = matcher->streams;
	const struct group *of = &streams->groups[group];

	for (uint32_t i = of->first_slot; i < of->first_slot + of->slot_count; i++)
		if (strcmp(streams->streams[streams->slots[i].stream].role, role) == 0)
			return streams->slots[i].stream;
	return of->first_stream;
}

/* Returns a slot, or POOLED and a stream. */
static uint32_t binding_of(struct matcher *matcher, const struct observed *call)
{
	const struct group *group = &matcher->streams->groups[call->group];
	const uint32_t thread[3] = {call->group, call->tid, matcher->returns[call->group]};

	if (group->is_in_order)
		return group->first_slot;
	uint32_t found = table_get(&matcher->slot_by_thread, thread, sizeof(thread));

	if (found != NOT_IN_TABLE && (found & POOLED || matcher->slots[found].tid == call->tid))
		return found;
	found = find_slot(matcher, call);
	if (found == NONE) {
		unbind_ended(matcher, &matcher->streams->groups[call->group]);
		found = find_slot(matcher, call);
	}
	if (found == NONE) {
		found = POOLED | stream_of_pool(matcher, call->group, call->role);
	} else {
		matcher->slots[found].is_bound = true;
		matcher->slots[found].tid = call->tid;
	}
	table_put(&matcher->slot_by_thread, thread, sizeof(thread), found);
	return found;
}

static struct alignment_call call_in(const struct matcher *matcher, uint32_t index, uint32_t size)
{
	return (struct alignment_call){
	    .streams = matcher->streams,
	    .slot = &matcher->streams->slots[index],
	    .used = matcher->used,
	    .own = matcher->own,
	    .size = size,
	};
}

/* A call without an event of its own takes as long as this event, if that applies to its thread. */
static struct match like(const struct matcher *matcher, uint32_t event, uint32_t stream, uint8_t how)
{
	return (struct match){
	    .target_ns = streams_is_for_others(matcher->streams, event, matcher->own)
			     ? 0
			     : matcher->streams->plan->events[event].target_ns,
	    .stream = matcher->own != NONE ? matcher->own : stream,
	    .event = NONE,
	    .how = how,
	};
}

/* The hash depends only on the seed, the stream, the slot and the ordinal. */
static uint64_t drawn_hash(const struct matcher *matcher, uint32_t stream, uint32_t slot, uint64_t ordinal)
{
	return hash_numbers(matcher->seed, (uint64_t)stream << 32 | slot, ordinal);
}

static struct match from_distribution(const struct matcher *matcher, uint32_t stream, uint32_t slot, uint64_t ordinal,
				      uint32_t size)
{
	const uint32_t drawn_of = matcher->own != NONE ? matcher->own : stream;
	const uint64_t hash = drawn_hash(matcher, drawn_of, slot, ordinal);

	return like(matcher, size_pools_event(&matcher->streams->sizes, drawn_of, size, hash), stream,
		    HOW_DISTRIBUTION);
}

#define DRAWS 3

/*
 * Returns the match of middle duration: so an extra call rarely gets the only long wait of many calls, but does get one
 * of many long waits.
 */
static struct match middle(const struct match matches[static DRAWS])
{
	const uint64_t a = matches[0].target_ns, b = matches[1].target_ns, c = matches[2].target_ns;

	if ((a <= b && b <= c) || (c <= b && b <= a))
		return matches[1];
	return (b <= a && a <= c) || (c <= a && a <= b) ? matches[0] : matches[2];
}

/* Draws a match for a call that comes after all events of its slot. */
static struct match beyond_end(struct matcher *matcher, uint32_t index, uint32_t size)
{
	const struct slot *slot = &matcher->streams->slots[index];
	const uint64_t ordinal = matcher->slots[index].calls++ * DRAWS;
	struct match drawn[DRAWS];

	for (uint32_t i = 0; i < DRAWS; i++)
		drawn[i] = from_distribution(matcher, slot->stream, index, ordinal + i, size);
	return middle(drawn);
}

/* Draws from the calls near the slot's current place, so that an extra call during a stall takes long, too. */
static struct match extra(const struct matcher *matcher, uint32_t index)
{
	const struct slot *slot = &matcher->streams->slots[index];
	const uint64_t ordinal = matcher->slots[index].calls * DRAWS;
	const uint32_t next = next_place(matcher, index);
	const uint32_t first = next > NEAR ? next - NEAR : 0;
	const uint32_t end = next + NEAR < slot->count ? next + NEAR + 1 : slot->count;
	struct match drawn[DRAWS];

	for (uint32_t i = 0; i < DRAWS; i++) {
		const uint64_t hash = drawn_hash(matcher, slot->stream, index, ordinal + i);
		const uint32_t place = slot->first + first + number_below(hash, end - first);

		drawn[i] = like(matcher, matcher->streams->order[place], slot->stream, HOW_EXTRA);
	}
	return middle(drawn);
}

static struct match use(struct matcher *matcher, uint32_t index, uint32_t at, uint8_t how)
{
	const struct slot *slot = &matcher->streams->slots[index];
	const uint32_t place = slot->first + at;
	const uint32_t number = matcher->streams->order[place];
	const struct plan_event *event = &matcher->streams->plan->events[number];

	matcher->used[place / 64] |= 1ull << place % 64;
	matcher->used_count++;
	return (struct match){
	    .target_ns = event->target_ns,
	    .stream = matcher->streams->stream_of_event[number],
	    .event = number,
	    .error = event->error,
	    .is_short = event->flags & EVENT_FLAG_SHORT_WRITE,
	    .how = how,
	};
}

/* Returns the place of the sync that followed these writes in the incident, in the same form as alignment_find(). */
static uint32_t sync_of_writes(struct matcher *matcher, uint32_t index, const struct observed *call)
{
	const struct slot *slot = &matcher->streams->slots[index];
	struct alignment *alignment = matcher->slots[index].alignment;
	const uint32_t at = syncs_next(&matcher->syncs, slot->group, call->tid);

	if (at == NONE) {
		const struct alignment_call sync = call_in(matcher, index, call->size);
		return alignment_find(alignment, &sync);
	}
	if (is_used(matcher, slot->first + at))
		return slot->count;
	alignment_set(alignment, at);
	return at;
}

static void remember(struct matcher *matcher, struct match_slot *state, bool is_matched)
{
	state->matched_bits = state->matched_bits << 1 | is_matched;
	if (matcher->mode != MODE_AUTO || state->is_switched || state->calls < HISTORY ||
	    __builtin_popcountll(state->matched_bits) >= HISTORY_MATCHED_MIN)
		return;
	state->is_switched = true;
	matcher->switched_count++;
}

static uint32_t find_event(struct matcher *matcher, uint32_t index, const struct observed *call)
{
	struct alignment *alignment = matcher->slots[index].alignment;

	if (call->is_sync && matcher->mode != MODE_ORDINAL)
		return sync_of_writes(matcher, index, call);
	const struct alignment_call write = call_in(matcher, index, call->size);
	if (matcher->mode != MODE_ORDINAL)
		return alignment_find(alignment, &write);
	const uint32_t next = alignment->next;
	if (next < write.slot->count)
		alignment_set(alignment, next);
	return next;
}

static bool has_alignment(struct match_slot *state)
{
	if (state->alignment)
		return true;
	state->alignment = malloc(sizeof(*state->alignment));
	if (state->alignment)
		alignment_begin(state->alignment);
	return state->alignment;
}

static struct match in_slot(struct matcher *matcher, uint32_t index, const struct observed *call)
{
	const struct slot *slot = &matcher->streams->slots[index];
	struct match_slot *state = &matcher->slots[index];

	if (matcher->mode == MODE_DIST || state->is_switched || !has_alignment(state))
		return from_distribution(matcher, slot->stream, index, state->calls++, call->size);
	const uint32_t expected = next_place(matcher, index);
	uint32_t at = find_event(matcher, index, call);
	const uint32_t event = at < slot->count ? matcher->streams->order[slot->first + at] : NONE;
	if (event != NONE && streams_is_for_others(matcher->streams, event, matcher->own))
		at = slot->count;
	if (at == slot->count && expected == slot->count)
		return beyond_end(matcher, index, call->size);
	state->calls++;
	remember(matcher, state, at < slot->count);
	if (at == slot->count)
		return extra(matcher, index);
	const bool is_same_size = matcher->streams->plan->events[event].size == call->size;
	syncs_expect(&matcher->syncs, slot->group, call->tid, event);
	return use(matcher, index, at, at != expected ? HOW_WINDOW : is_same_size ? HOW_EXACT : HOW_SIZE);
}

/* Matches a call to a file that the plan does not have. */
static struct match elsewhere(struct matcher *matcher, const struct observed *call)
{
	struct match match = {.stream = NONE, .event = NONE, .how = HOW_NO_STREAM};

	if (!matcher->classes)
		return match;
	const struct class_of class = {call->is_sync, call->path_kind, call->role};
	const uint32_t event = classes_draw(matcher->classes, &class, call->size, matcher->seed);
	if (event == NONE)
		return match;
	match.target_ns = matcher->streams->plan->events[event].target_ns;
	match.how = HOW_CLASS;
	return match;
}

struct match matcher_match(struct matcher *matcher, const struct observed *call)
{
	if (call->group == NONE)
		return elsewhere(matcher, call);
	const struct group *group = &matcher->streams->groups[call->group];
	matcher->own =
	    group->has_roles ? streams_stream(matcher->streams, call->group, call->role) : group->first_stream;
	const uint32_t binding = binding_of(matcher, call);
	if (!(binding & POOLED))
		return in_slot(matcher, binding, call);
	const uint32_t stream = binding & ~POOLED;
	return from_distribution(matcher, stream, NONE, matcher->pool_ordinals[stream]++, call->size);
}

void matcher_give_back(struct matcher *matcher, uint32_t group)
{
	const struct group *of = &matcher->streams->groups[group];

	for (uint32_t i = of->first_slot; i < of->first_slot + of->slot_count; i++) {
		const struct slot *slot = &matcher->streams->slots[i];

		for (uint32_t place = slot->first; place < slot->first + slot->count; place++) {
			matcher->used_count -= is_used(matcher, place);
			matcher->used[place / 64] &= ~(1ull << place % 64);
		}
		free(matcher->slots[i].alignment);
		matcher->slots[i] = (struct match_slot){0};
	}
	syncs_forget(&matcher->syncs, group);
	matcher->returns[group]++;
}
