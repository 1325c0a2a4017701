/*
 * Replays the times at which recorded calls were in progress, for builds that do other things than were recorded. A
 * call is held until all recorded calls that were in progress at its time have ended, whichever calls they are:
 *
 *   recorded  |==========|   |===|
 *                  |=========|
 *   calls      |~~~~~~~~~|
 *                    |~~~~~~~|     |
 *
 * Time starts with the first call to something that was recorded. This uses no clock and no system call.
 */
#ifndef KREPLAY_RUNNER_STALLS_H
#define KREPLAY_RUNNER_STALLS_H

#include "match/match.h"
#include "plan/streams.h"

struct stalls {
	const struct streams *streams;
	bool has_begun;
	uint64_t began_ns;
	uint32_t *first;  /* by group: its events in `starts`; one more than there are groups */
	uint64_t *starts; /* in order within each group */
	uint64_t *ends;   /* the latest end of the events that had started until then */
};

/* Uses the events that take at least this long. */
bool stalls_make(struct stalls *stalls, const struct streams *streams, uint64_t threshold_ns);
void stalls_free(struct stalls *stalls);
/* `now_ns` may be the time of any clock. */
struct match stalls_match(struct stalls *stalls, uint32_t group, uint64_t now_ns);

#endif
