#include "delay/lateness.h"

static unsigned bucket_of(uint64_t ns)
{
	if (ns < LATENESS_PER_DOUBLING)
		return ns;
	const unsigned doubling = 63 - __builtin_clzll(ns);

	/* The position within a doubling is given by the four bits below the highest. */
	return (doubling - 3) * LATENESS_PER_DOUBLING + (ns >> (doubling - 4)) % LATENESS_PER_DOUBLING;
}

static uint64_t bucket_end(unsigned bucket)
{
	if (bucket < LATENESS_PER_DOUBLING)
		return bucket;
	const unsigned doubling = bucket / LATENESS_PER_DOUBLING + 3;

	return ((uint64_t)(LATENESS_PER_DOUBLING + bucket % LATENESS_PER_DOUBLING + 1) << (doubling - 4)) - 1;
}

void lateness_add(struct lateness *lateness, uint64_t ns)
{
	lateness->counts[bucket_of(ns)]++;
	lateness->count++;
	if (ns > lateness->max_ns)
		lateness->max_ns = ns;
}

uint64_t lateness_percentile(const struct lateness *lateness, unsigned percent)
{
	const uint64_t wanted = (lateness->count * percent + 99) / 100;
	uint64_t seen = 0;

	for (unsigned bucket = 0; wanted > 0 && bucket < LATENESS_BUCKETS; bucket++) {
		seen += lateness->counts[bucket];
		if (seen >= wanted)
			return bucket_end(bucket) < lateness->max_ns ? bucket_end(bucket) : lateness->max_ns;
	}
	return 0;
}
