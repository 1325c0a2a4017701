/*
 * Finds the recorded call that a call of the build corresponds to. It uses no clock and no system call, so the same
 * calls give the same answers.
 */
#ifndef KREPLAY_RUNNER_MATCH_H
#define KREPLAY_RUNNER_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "match/classes.h"
#include "match/syncs.h"
#include "plan/options.h"
#include "plan/streams.h"

struct match_slot;

struct matcher {
	const struct streams *streams;
	enum mode mode;
	uint64_t seed;
	struct match_slot *slots;
	uint64_t *used;          /* a bit for each place in order */
	uint64_t *pool_ordinals; /* by stream: calls of threads without a slot */
	struct table slot_by_thread;
	uint32_t *returns; /* by group: how often its events were given back */
	struct syncs syncs;
	uint32_t own;            /* stream of the call that is being matched, by its role; NONE: not in the plan */
	struct classes *classes; /* NULL: calls to files outside the plan match nothing */
	uint32_t used_count;
	uint32_t switched_count; /* slots that fell back to the distribution */
	/*
	 * Returns whether that thread has ended, so that another thread may continue its slot. NULL: no thread ever
	 * ends.
	 */
	bool (*has_ended)(uint32_t tid);
};

struct observed {
	uint32_t group; /* NONE: the file is not in the plan */
	bool is_sync;
	uint32_t path_kind; /* PATH_KIND_*; NONE: it is no file */
	uint32_t tid;
	const char *comm;
	const char *role; /* key_of_comm() */
	uint32_t size;    /* SIZE_UNKNOWN */
};

struct match {
	uint64_t target_ns;
	uint32_t stream;
	uint32_t event; /* NONE: the duration is drawn from several events */
	uint16_t error;
	bool is_short; /* only a part of the data is to be written */
	uint8_t how;
};

bool matcher_make(struct matcher *matcher, const struct streams *streams, enum mode mode, uint64_t seed);
void matcher_free(struct matcher *matcher);
struct match matcher_match(struct matcher *matcher, const struct observed *call);
/* Resets the group as if no call had matched it: the calls that did were on another file. */
void matcher_give_back(struct matcher *matcher, uint32_t group);

#endif
