/* The plan's events in pools, each by size: how long something takes that is about as large. */
#ifndef KREPLAY_RUNNER_SIZE_POOLS_H
#define KREPLAY_RUNNER_SIZE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

/* log2 of the size, and one for unknown sizes. */
#define SIZE_BUCKETS 33

struct streams;

struct size_pool {
	uint32_t bucket_from[SIZE_BUCKETS + 1]; /* places in events */
};

struct size_pools {
	uint32_t *events; /* by pool and size bucket */
	struct size_pool *pools;
};

/* `pool_of_slot` says which pool a slot's events are in; those with one of the flags, EVENT_FLAG_*, are in none. */
bool size_pools_make(struct size_pools *pools, const struct streams *streams, const uint32_t *pool_of_slot,
		     uint32_t pool_count, uint16_t left_out);
void size_pools_free(struct size_pools *pools);

/* One of those about as large, if there are enough of them, else of all; `number` is any. NONE: the pool is empty. */
uint32_t size_pools_event(const struct size_pools *pools, uint32_t pool, uint32_t size, uint64_t number);

#endif
