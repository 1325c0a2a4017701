#ifndef KREPLAY_RUNNER_LATENESS_H
#define KREPLAY_RUNNER_LATENESS_H

#include <stdint.h>

/* The buckets grow by a sixteenth, so a percentile is at most 6 % too high. */
#define LATENESS_PER_DOUBLING 16
#define LATENESS_BUCKETS (64 * LATENESS_PER_DOUBLING)

struct lateness {
	uint64_t counts[LATENESS_BUCKETS];
	uint64_t count;
	uint64_t max_ns;
};

void lateness_add(struct lateness *lateness, uint64_t ns);
/* Returns 0 if nothing was added. */
uint64_t lateness_percentile(const struct lateness *lateness, unsigned percent);

#endif
