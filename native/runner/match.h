/*
 * Which recorded call a call of the build is. No clock, no system call: the same calls give the same answers.
 *
 *   slot   o o x o x x . . . . . . . .      x used   o passed over   . to come
 *          ^low
 *          |<-- window: the next WINDOW unused -->|
 */
#ifndef KREPLAY_RUNNER_MATCH_H
#define KREPLAY_RUNNER_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "classes.h"
#include "options.h"
#include "streams.h"
#include "syncs.h"

struct match_slot;

struct matcher {
	const struct streams *streams;
	enum mode mode;
	uint64_t seed;
	struct match_slot *slots;
	uint64_t *used;          /* a bit for each place in order */
	uint64_t *pool_ordinals; /* by stream: calls of threads that got no slot */
	struct table slot_by_thread;
	uint32_t *returns; /* by group: how often its events were given back */
	struct syncs syncs;
	uint32_t own;            /* stream of the call that is being matched, by its role; NONE: the plan has none */
	struct classes *classes; /* NULL: calls to files that the plan does not have get nothing */
	uint32_t used_count;
	uint32_t switched_count; /* slots that fell back to the distribution */
	/* Whether that thread runs no more: its slot may go on with another. NULL: none ever ends. */
	bool (*has_ended)(uint32_t tid);
};

struct observed {
	uint32_t group; /* NONE: the plan does not have the file */
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
	uint32_t event; /* NONE: drawn from several */
	uint16_t error;
	bool is_short; /* only a part is to be written */
	uint8_t how;
};

bool matcher_make(struct matcher *matcher, const struct streams *streams, enum mode mode, uint64_t seed);
void matcher_free(struct matcher *matcher);
struct match matcher_match(struct matcher *matcher, const struct observed *call);
/* As if no call had been one of the group's: those that were taken for them are calls on another file. */
void matcher_give_back(struct matcher *matcher, uint32_t group);

#endif
