/* The plan's events in pools, each sorted by size, to find the duration of an event of about the same size. */
#ifndef KREPLAY_RUNNER_SIZE_POOLS_H
#define KREPLAY_RUNNER_SIZE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

/* There is a bucket for each log2 of the size, and one for unknown sizes. */
#define SIZE_BUCKETS 33

struct streams;

struct size_pool {
	uint32_t bucket_from[SIZE_BUCKETS + 1]; /* places in events */
};

struct size_pools {
	uint32_t *events; /* by pool and size bucket */
	struct size_pool *pools;
};

/*
 * `pool_of_stream` gives the pool of each stream's events, which may be in a slot of several streams. Events with one
 * of the flags `left_out`, EVENT_FLAG_*, are in no pool.
 */
bool size_pools_make(struct size_pools *pools, const struct streams *streams, const uint32_t *pool_of_stream,
		     uint32_t pool_count, uint16_t left_out);
void size_pools_free(struct size_pools *pools);

/*
 * Returns an event of about this size, if there are enough of them, otherwise one of all; `number` can be any. Returns
 * NONE if the pool is empty.
 */
uint32_t size_pools_event(const struct size_pools *pools, uint32_t pool, uint32_t size, uint64_t number);

#endif
