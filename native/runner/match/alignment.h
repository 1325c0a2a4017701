/*
 * Follows which of a slot's events a thread of the build has come to, although calls may be missing, new, moved or of
 * other sizes:
 *
 *   plan     200  237  274  311  348  385
 *   build         237       311  355  385          200 and 274 are not made, 355 is 348 of another size
 *
 * Each way to match the calls so far has a likelihood: that of calls being missing, new or moved, and that of their
 * sizes. For each place of the slot, the likelihood of the best way that expects this place next is kept, so that a
 * decision that turns out to be wrong shifts no later one. This is the Viterbi algorithm on a band of places. How often
 * sizes vary from run to run, and how often calls are missing or new, is estimated from the calls so far.
 */
#ifndef KREPLAY_RUNNER_ALIGNMENT_H
#define KREPLAY_RUNNER_ALIGNMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/streams.h"

/* Numbers of places before and behind the expected one that a call may match. */
#define PLACES_BEHIND 48
#define PLACES_AHEAD 64
#define PLACES (PLACES_BEHIND + PLACES_AHEAD)

struct alignment {
	uint32_t base;                /* the band's first place */
	uint32_t next;                /* the place that the likeliest way expects */
	float likelihood[PLACES + 1]; /* by place from the base on, relative to the likeliest */
	uint32_t same, other;         /* matched calls of the size of their event, and of another */
	uint32_t near;                /* those of another size that is near */
	uint32_t of_slot, by_bytes;   /* near sizes that another event has, and that differ by a few bytes */
	float near_share;             /* sum of the shares by which near sizes differ */
	uint32_t extra, gaps;         /* calls without an event, and calls ahead of their turn */
};

/* A call, and the events that it may match. */
struct alignment_call {
	const struct streams *streams;
	const struct slot *slot;
	const uint64_t *used; /* a bit for each place in order: events that have a call */
	uint32_t own;         /* stream of the call's role; NONE: any */
	uint32_t size;        /* SIZE_UNKNOWN */
};

void alignment_begin(struct alignment *alignment);

/* Returns the place in the slot of the call's event; the slot's count if it has none. */
uint32_t alignment_find(struct alignment *alignment, const struct alignment_call *call);

/* Continues after a place that the caller found by other means. */
void alignment_set(struct alignment *alignment, uint32_t place);

#endif
