/*
 * Finds the sync of the plan that a sync of the build corresponds to, on files whose calls are sequential. All syncs
 * look alike, so by their order alone, all syncs after a new one would be shifted. But each sync makes the writes
 * before it durable, and writes are recognized by their sizes.
 *
 *   plan    w1 s1  w2 s2  w3 s3
 *   build   w  s   w1 s   w2 s        the syncs of a new write, of w1 and of w2
 */
#ifndef KREPLAY_RUNNER_SYNCS_H
#define KREPLAY_RUNNER_SYNCS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/streams.h"

struct expected_syncs;

struct syncs {
	const struct streams *streams;
	uint32_t *group_of_syncs; /* by group of writes: the group of syncs of the same file; NONE */
	struct expected_syncs *expected;
};

/* Returns false if there is no memory. */
bool syncs_make(struct syncs *syncs, const struct streams *streams);
void syncs_free(struct syncs *syncs);

/* Notes that a write of that group matched the plan's event: the sync that followed it in the incident is expected. */
void syncs_expect(struct syncs *syncs, uint32_t group, uint32_t tid, uint32_t event);

/*
 * Returns the place in its slot of the sync that a thread is making: the sync expected after the thread's oldest write
 * since its last sync, or after any thread's if it wrote nothing itself. Returns NONE if no write matched the plan
 * since. The place may be used already, if the build syncs more often than production did.
 */
uint32_t syncs_next(struct syncs *syncs, uint32_t group, uint32_t tid);

/* Drops the expected syncs of a group, because they were expected of another file. */
void syncs_forget(struct syncs *syncs, uint32_t group);

#endif
