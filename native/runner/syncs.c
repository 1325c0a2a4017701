#include "syncs.h"

#include <stdlib.h>
#include <string.h>

/* Syncs to come of one file: of writes by several threads, that sync one after the other. */
#define EXPECTED_MAX 16

struct expected_syncs {
	uint32_t places[EXPECTED_MAX]; /* a ring */
	uint32_t first, count;
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

/* The place of the first event of the slot that begins after that time; its count: there is none. */
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

void syncs_expect(struct syncs *syncs, uint32_t group, uint32_t event)
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
	/* One sync is of all that was written before it. */
	if (expected->count > 0 && expected->places[(expected->first + expected->count - 1) % EXPECTED_MAX] == place)
		return;
	if (expected->count == EXPECTED_MAX) {
		expected->first = (expected->first + 1) % EXPECTED_MAX;
		expected->count--;
	}
	expected->places[(expected->first + expected->count++) % EXPECTED_MAX] = place;
}

uint32_t syncs_next(struct syncs *syncs, uint32_t group)
{
	struct expected_syncs *expected = &syncs->expected[group];

	if (expected->count == 0)
		return NONE;
	const uint32_t place = expected->places[expected->first];

	expected->first = (expected->first + 1) % EXPECTED_MAX;
	expected->count--;
	return place;
}
