/*
 * When recorded calls were under way, for builds that do other things than were recorded. A call is held until the last
 * of them that were under way at its time had ended, whichever it is:
 *
 *   recorded  |==========|   |===|
 *                  |=========|
 *   calls      |~~~~~~~~~|
 *                    |~~~~~~~|     |
 *
 * Time begins with the first call to something that was recorded. No clock here, no system call.
 */
#ifndef KREPLAY_RUNNER_STALLS_H
#define KREPLAY_RUNNER_STALLS_H

#include "match.h"
#include "streams.h"

struct stalls {
	const struct streams *streams;
	bool has_begun;
	uint64_t began_ns;
	uint32_t *first;  /* by group: its events in `starts`; one more than there are groups */
	uint64_t *starts; /* of each group in order */
	uint64_t *ends;   /* the latest end of those that started until then */
};

/* Of events that take at least so long. */
bool stalls_make(struct stalls *stalls, const struct streams *streams, uint64_t threshold_ns);
void stalls_free(struct stalls *stalls);
/* `now_ns`: by any clock. */
struct match stalls_match(struct stalls *stalls, uint32_t group, uint64_t now_ns);

#endif
