#include "match/stalls.h"

#include <stdlib.h>

struct stall {
	uint64_t start_ns, end_ns;
};

static int by_start(const void *left, const void *right)
{
	const struct stall *a = left, *b = right;

	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static uint32_t gather(const struct streams *streams, uint32_t group, uint64_t threshold_ns, struct stall *found)
{
	const struct group *of = &streams->groups[group];
	uint32_t count = 0;

	for (uint32_t i = of->first_slot; i < of->first_slot + of->slot_count; i++) {
		const struct slot *slot = &streams->slots[i];

		for (uint32_t j = slot->first; j < slot->first + slot->count; j++) {
			const struct plan_event *event = &streams->plan->events[streams->order[j]];
			uint64_t end_ns;

			if (event->target_ns < threshold_ns ||
			    __builtin_add_overflow(event->offset_ns, event->target_ns, &end_ns))
				continue;
			found[count++] = (struct stall){event->offset_ns, end_ns};
		}
	}
	qsort(found, count, sizeof(*found), by_start);
	return count;
}

static void fill(struct stalls *stalls, uint64_t threshold_ns, struct stall *found)
{
	uint32_t at = 0;

	for (uint32_t group = 0; group < stalls->streams->group_count; group++) {
		const uint32_t count = gather(stalls->streams, group, threshold_ns, found);
		uint64_t latest_ns = 0;

		for (uint32_t i = 0; i < count; i++, at++) {
			latest_ns = found[i].end_ns > latest_ns ? found[i].end_ns : latest_ns;
			stalls->starts[at] = found[i].start_ns;
			stalls->ends[at] = latest_ns;
		}
		stalls->first[group + 1] = at;
	}
}

bool stalls_make(struct stalls *stalls, const struct streams *streams, uint64_t threshold_ns)
{
	const size_t events = streams->plan->header->event_count + 1ul;
	struct stall *found = malloc(events * sizeof(*found));

	*stalls = (struct stalls){
	    .streams = streams,
	    .first = calloc(streams->group_count + 1ul, sizeof(*stalls->first)),
	    .starts = malloc(events * sizeof(*stalls->starts)),
	    .ends = malloc(events * sizeof(*stalls->ends)),
	};
	const bool is_made = found && stalls->first && stalls->starts && stalls->ends;
	if (is_made)
		fill(stalls, threshold_ns, found);
	free(found);
	return is_made;
}

void stalls_free(struct stalls *stalls)
{
	free(stalls->first);
	free(stalls->starts);
	free(stalls->ends);
}

struct match stalls_match(struct stalls *stalls, uint32_t group, uint64_t now_ns)
{
	struct match match = {.stream = NONE, .event = NONE, .how = HOW_NO_STREAM};

	if (group == NONE)
		return match;
	if (!stalls->has_begun) {
		stalls->has_begun = true;
		stalls->began_ns = now_ns;
	}
	const uint64_t at_ns = now_ns - stalls->began_ns;
	/* The search ends after the last event that had started. */
	uint32_t low = stalls->first[group], high = stalls->first[group + 1];
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (stalls->starts[middle] <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	match.stream = stalls->streams->groups[group].first_stream;
	match.how = HOW_STALL;
	if (low > stalls->first[group] && stalls->ends[low - 1] > at_ns)
		match.target_ns = stalls->ends[low - 1] - at_ns;
	return match;
}
