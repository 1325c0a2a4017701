/*
 * Which sync of the plan a sync of the build is, on files whose calls come one after the other. All syncs look alike,
 * so their order alone would shift all of them after one that is new: but each makes durable what was written before
 * it, and writes are known by their sizes.
 *
 *   plan    w1 s1  w2 s2  w3 s3
 *   build   w  s   w1 s   w2 s        the syncs of a new write, of w1 and of w2
 */
#ifndef KREPLAY_RUNNER_SYNCS_H
#define KREPLAY_RUNNER_SYNCS_H

#include <stdbool.h>
#include <stdint.h>

#include "streams.h"

struct expected_syncs;

struct syncs {
	const struct streams *streams;
	uint32_t *group_of_syncs; /* by group of writes: that of the syncs of the same file; NONE */
	struct expected_syncs *expected;
};

/* False: no memory. */
bool syncs_make(struct syncs *syncs, const struct streams *streams);
void syncs_free(struct syncs *syncs);

/* A write of that group was the plan's event: the sync that followed it in the incident is to come. */
void syncs_expect(struct syncs *syncs, uint32_t group, uint32_t tid, uint32_t event);

/*
 * The place in its slot of the sync that a thread now makes: of the oldest write of its own since its last sync, or of
 * any thread when it wrote none itself. NONE: nothing of the plan was written since. The place may be used already,
 * where the build syncs more often than production did.
 */
uint32_t syncs_next(struct syncs *syncs, uint32_t group, uint32_t tid);

/* What is expected of a group of syncs was expected of another file. */
void syncs_forget(struct syncs *syncs, uint32_t group);

#endif
