#include "plan/size_pools.h"

#include <stdlib.h>

#include "identify/keys.h"
#include "plan/streams.h"

#define SAMPLES_MIN 8

static unsigned bucket_of(uint32_t size)
{
	if (size == SIZE_UNKNOWN)
		return SIZE_BUCKETS - 1;
	return size == 0 ? 0 : 31 - __builtin_clz(size);
}

/* A counting sort, pool by pool. */
static void sort(struct size_pools *pools, const struct streams *streams, const uint32_t *pool_of_stream,
		 uint32_t pool_count, uint16_t left_out)
{
	const struct plan_event *events = streams->plan->events;
	uint32_t next = 0;

	for (uint32_t i = 0; i < streams->placed_count; i++) {
		const uint32_t event = streams->order[i];
		const uint32_t pool = pool_of_stream[streams->stream_of_event[event]];

		if (!(events[event].flags & left_out))
			pools->pools[pool].bucket_from[bucket_of(events[event].size)]++;
	}
	for (uint32_t i = 0; i < pool_count; i++) {
		for (unsigned bucket = 0; bucket < SIZE_BUCKETS; bucket++) {
			next += pools->pools[i].bucket_from[bucket];
			pools->pools[i].bucket_from[bucket] = next;
		}
		pools->pools[i].bucket_from[SIZE_BUCKETS] = next;
	}
	/* Each bucket is filled from its end, so that its counter arrives at its beginning. */
	for (uint32_t i = streams->placed_count; i-- > 0;) {
		const uint32_t event = streams->order[i];
		uint32_t *from = pools->pools[pool_of_stream[streams->stream_of_event[event]]].bucket_from;

		if (!(events[event].flags & left_out))
			pools->events[--from[bucket_of(events[event].size)]] = event;
	}
}

bool size_pools_make(struct size_pools *pools, const struct streams *streams, const uint32_t *pool_of_stream,
		     uint32_t pool_count, uint16_t left_out)
{
	*pools = (struct size_pools){
	    .events = calloc(streams->plan->header->event_count + 1ul, sizeof(*pools->events)),
	    .pools = calloc(pool_count + 1ul, sizeof(*pools->pools)),
	};
	if (!pools->events || !pools->pools)
		return false;
	sort(pools, streams, pool_of_stream, pool_count, left_out);
	return true;
}

void size_pools_free(struct size_pools *pools)
{
	free(pools->events);
	free(pools->pools);
}

uint32_t size_pools_event(const struct size_pools *pools, uint32_t pool, uint32_t size, uint64_t number)
{
	const uint32_t *from = pools->pools[pool].bucket_from;
	const unsigned bucket = bucket_of(size);
	uint32_t first = from[bucket], end = from[bucket + 1];

	if (end - first < SAMPLES_MIN) {
		first = from[bucket > 0 ? bucket - 1 : 0];
		end = from[bucket + 2 < SIZE_BUCKETS ? bucket + 2 : SIZE_BUCKETS];
	}
	if (end - first < SAMPLES_MIN) {
		first = from[0];
		end = from[SIZE_BUCKETS];
	}
	if (first == end)
		return NONE;
	return pools->events[first + number_below(number, end - first)];
}
