#include "match/match.h"

#include <stdlib.h>
#include <string.h>

#include "identify/keys.h"
#include "match/sizes.h"

#define WINDOW 48
/* Costs of a match: for each event passed over, for another role, and the limit that rejects it. */
#define COST_SKIPPED 0.03
#define COST_OTHER_ROLE 0.25
#define COST_MAX 1.0
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
	uint32_t low;         /* the first unused place */
	uint32_t used_beyond; /* used places after it: calls that passed it over */
	uint64_t calls;
	uint64_t matched_bits; /* the last HISTORY calls, the newest in the lowest bit */
	struct sizes sizes;
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

static const struct plan_event *event_at(const struct matcher *matcher, uint32_t place)
{
	return &matcher->streams->plan->events[matcher->streams->order[place]];
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
		struct match_slot *slot = &matcher->slots[group->first_slot + i];

		if (slot->low == matcher->streams->slots[group->first_slot + i].count)
			continue;
		looked_for++;
		if (matcher->has_ended(slot->tid))
			slot->is_bound = false;
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

/* Returns whether a rule chose the event for threads of another role. */
static bool is_for_others(const struct matcher *matcher, uint32_t event)
{
	const struct streams *streams = matcher->streams;

	return streams->plan->events[event].flags & EVENT_FLAG_RULED_BY_THREAD &&
	       streams->stream_of_event[event] != matcher->own;
}

/* A call without an event of its own takes as long as this event, if that applies to its thread. */
static struct match like(const struct matcher *matcher, uint32_t event, uint32_t stream, uint8_t how)
{
	return (struct match){
	    .target_ns = is_for_others(matcher, event) ? 0 : matcher->streams->plan->events[event].target_ns,
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

/* Draws from the calls near the slot's current place, so that a stall remains one. */
static struct match extra(const struct matcher *matcher, uint32_t index)
{
	const struct slot *slot = &matcher->streams->slots[index];
	const struct match_slot *state = &matcher->slots[index];
	const uint32_t first = state->low > NEAR ? state->low - NEAR : 0;
	const uint32_t end = state->low + NEAR < slot->count ? state->low + NEAR + 1 : slot->count;
	const uint32_t drawn =
	    first + number_below(drawn_hash(matcher, slot->stream, index, state->calls), end - first);

	return like(matcher, matcher->streams->order[slot->first + drawn], slot->stream, HOW_EXTRA);
}

static void advance(struct matcher *matcher, uint32_t index)
{
	const struct slot *slot = &matcher->streams->slots[index];
	struct match_slot *state = &matcher->slots[index];

	for (;;) {
		while (state->low < slot->count && is_used(matcher, slot->first + state->low)) {
			state->low++;
			state->used_beyond--;
		}
		/* As many calls have passed it over as the window is long, so it will not come. */
		if (state->low == slot->count || state->used_beyond < WINDOW)
			return;
		state->low++;
	}
}

static struct match use(struct matcher *matcher, uint32_t index, uint32_t at, uint8_t how)
{
	const struct slot *slot = &matcher->streams->slots[index];
	const uint32_t place = slot->first + at;
	const uint32_t number = matcher->streams->order[place];
	const struct plan_event *event = &matcher->streams->plan->events[number];

	matcher->used[place / 64] |= 1ull << place % 64;
	matcher->used_count++;
	matcher->slots[index].used_beyond++;
	advance(matcher, index);
	return (struct match){
	    .target_ns = event->target_ns,
	    .stream = matcher->streams->stream_of_event[number],
	    .event = number,
	    .error = event->error,
	    .is_short = event->flags & EVENT_FLAG_SHORT_WRITE,
	    .how = how,
	};
}

static double role_cost(const struct matcher *matcher, uint32_t event)
{
	const bool is_same = matcher->own == NONE || matcher->streams->stream_of_event[event] == matcher->own;

	if (is_for_others(matcher, event))
		return COST_MAX;
	return is_same ? 0 : COST_OTHER_ROLE;
}

/* Returns the place in the slot of the best match, or the slot's count if none is good enough. */
static uint32_t align(const struct matcher *matcher, uint32_t index, uint32_t size)
{
	const struct slot *slot = &matcher->streams->slots[index];
	const struct sizes *sizes = &matcher->slots[index].sizes;
	const uint32_t head = matcher->slots[index].low;
	const bool vary = sizes_vary(sizes);
	double best_cost = COST_MAX;
	uint32_t best = slot->count, skipped = 0;

	for (uint32_t at = head; at < slot->count && skipped < WINDOW; at++) {
		if (is_used(matcher, slot->first + at))
			continue;
		const uint32_t event = matcher->streams->order[slot->first + at];
		const double cost = COST_SKIPPED * skipped + role_cost(matcher, event) +
				    sizes_cost(matcher->streams->plan->events[event].size, size, vary);
		if (cost < best_cost) {
			best_cost = cost;
			best = at;
		}
		skipped++;
		/* From here on, even an event of the same size would cost more. */
		if (COST_SKIPPED * skipped >= best_cost)
			break;
	}
	const bool is_jump = best < slot->count && best > head;
	if (is_jump && role_cost(matcher, matcher->streams->order[slot->first + head]) == 0 &&
	    event_at(matcher, slot->first + best)->size == size &&
	    !sizes_favour_ahead(sizes, matcher->streams, slot, head, best, size))
		return head;
	return best;
}

/* Returns the place of the sync that followed these writes in the incident, in the same form as align(). */
static uint32_t sync_of_writes(struct matcher *matcher, uint32_t index, const struct observed *call)
{
	const struct slot *slot = &matcher->streams->slots[index];
	const uint32_t at = syncs_next(&matcher->syncs, slot->group, call->tid);

	if (at == NONE)
		return align(matcher, index, call->size);
	return at < matcher->slots[index].low || is_used(matcher, slot->first + at) ? slot->count : at;
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
	if (matcher->mode == MODE_ORDINAL)
		return matcher->slots[index].low;
	return call->is_sync ? sync_of_writes(matcher, index, call) : align(matcher, index, call->size);
}

static struct match in_slot(struct matcher *matcher, uint32_t index, const struct observed *call)
{
	const struct slot *slot = &matcher->streams->slots[index];
	struct match_slot *state = &matcher->slots[index];

	if (matcher->mode == MODE_DIST || state->is_switched || state->low == slot->count)
		return from_distribution(matcher, slot->stream, index, state->calls++, call->size);
	const uint32_t head = state->low;
	const bool is_back = state->used_beyond > 0;
	uint32_t at = find_event(matcher, index, call);
	if (at < slot->count && is_for_others(matcher, matcher->streams->order[slot->first + at]))
		at = slot->count;
	const bool is_same_size = at < slot->count && event_at(matcher, slot->first + at)->size == call->size;
	state->calls++;
	remember(matcher, state, at < slot->count);
	if (at == slot->count) {
		sizes_note_extra(&state->sizes);
		return extra(matcher, index);
	}
	sizes_note(&state->sizes, matcher->streams, slot, at, call->size, at == head, is_back);
	syncs_expect(&matcher->syncs, slot->group, call->tid, matcher->streams->order[slot->first + at]);
	return use(matcher, index, at, at != head ? HOW_WINDOW : is_same_size ? HOW_EXACT : HOW_SIZE);
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
		matcher->slots[i] = (struct match_slot){0};
	}
	syncs_forget(&matcher->syncs, group);
	matcher->returns[group]++;
}
