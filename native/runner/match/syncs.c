#include "match/syncs.h"

#include <stdlib.h>
#include <string.h>

/* Limit of matched writes to one file that wait for a sync. */
#define EXPECTED_MAX 16

struct expected_sync {
	uint32_t place;
	uint32_t tid; /* the writer */
};

/* Expected syncs of one file, the oldest first. */
struct expected_syncs {
	struct expected_sync syncs[EXPECTED_MAX];
	uint32_t count;
};

bool syncs_make(struct syncs *syncs, const struct streams *streams)
{
	*syncs = (struct syncs){
	    .streams = streams,
	    .group_of_syncs = malloc((streams->group_count + 1ul) * sizeof(*syncs->group_of_syncs)),
	    .expected = calloc(streams->group_count + 1ul, sizeof(*syncs->expected)),
	};
	if (!syncs->group_of_syncs || !syncs->expected)
		return false;
	for (uint32_t i = 0; i < streams->group_count; i++) {
		const struct group *group = &streams->groups[i];
		const uint32_t of_syncs = streams_group(streams, true, group->file);
		const bool is_paired = !group->is_sync && group->is_in_order && of_syncs != NOT_IN_TABLE &&
				       streams->groups[of_syncs].is_in_order;

		syncs->group_of_syncs[i] = is_paired ? of_syncs : NONE;
	}
	return true;
}

void syncs_free(struct syncs *syncs)
{
	free(syncs->group_of_syncs);
	free(syncs->expected);
}

/* Returns the place of the slot's first event that begins after that time, or the slot's count if there is none. */
static uint32_t first_after(const struct streams *streams, const struct slot *slot, uint64_t offset_ns)
{
	uint32_t low = 0, high = slot->count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (streams->plan->events[streams->order[slot->first + middle]].offset_ns <= offset_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void syncs_expect(struct syncs *syncs, uint32_t group, uint32_t tid, uint32_t event)
{
	const struct streams *streams = syncs->streams;
	const uint32_t of_syncs = syncs->group_of_syncs[group];

	if (of_syncs == NONE)
		return;
	const struct slot *slot = &streams->slots[streams->groups[of_syncs].first_slot];
	const uint32_t place = first_after(streams, slot, streams->plan->events[event].offset_ns);
	struct expected_syncs *expected = &syncs->expected[of_syncs];

	if (place == slot->count)
		return;
	if (expected->count == EXPECTED_MAX)
		memmove(expected->syncs, expected->syncs + 1, --expected->count * sizeof(*expected->syncs));
	expected->syncs[expected->count++] = (struct expected_sync){place, tid};
}

static bool has_written(const struct expected_syncs *expected, uint32_t tid)
{
	for (uint32_t i = 0; i < expected->count; i++)
		if (expected->syncs[i].tid == tid)
			return true;
	return false;
}

uint32_t syncs_next(struct syncs *syncs, uint32_t group, uint32_t tid)
{
	struct expected_syncs *expected = &syncs->expected[group];
	const bool is_writer = has_written(expected, tid);
	uint32_t place = NONE, left = 0;

	for (uint32_t i = 0; i < expected->count; i++) {
		if (is_writer && expected->syncs[i].tid != tid)
			expected->syncs[left++] = expected->syncs[i];
		else if (place == NONE)
			place = expected->syncs[i].place;
	}
	expected->count = left;
	return place;
}

void syncs_forget(struct syncs *syncs, uint32_t group)
{
	syncs->expected[group].count = 0;
}
