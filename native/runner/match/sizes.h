/*
 * Judges whether the sizes of calls tell them apart. In a log of lines they do: if a line is missing, the size of the
 * next one says so. Where sizes vary from run to run, because they include random or counted numbers, an event of
 * exactly the right size further on says nothing, and order decides.
 *
 *   plan    192 192 184 192 192 192
 *   build   192 192 192 192 184 192       no call is missing here
 */
#ifndef KREPLAY_RUNNER_SIZES_H
#define KREPLAY_RUNNER_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/streams.h"

/* The calls of one slot, as far as they show that sizes follow the plan. */
struct sizes {
	uint64_t calls;
	uint64_t exact_bits; /* the last calls that had the size of their event, the newest in the lowest bit */
	double evidence;     /* logarithm of the odds that sizes follow the plan, as far as calls have shown it */
};

/* Whether so many calls had other sizes than planned that sizes must vary. */
bool sizes_vary(const struct sizes *sizes);

/* The cost of a match between calls of those sizes; near sizes cost nothing where sizes vary. */
double sizes_cost(uint32_t planned, uint32_t observed, bool vary);

/*
 * Whether the call is rather the slot's event at `ahead`, of exactly its size, than the one at `head`, which comes
 * first: not if such a size occurs there by chance.
 */
bool sizes_favour_ahead(const struct sizes *sizes, const struct streams *streams, const struct slot *slot,
			uint32_t head, uint32_t ahead, uint32_t observed);

/*
 * Notes that a call matched the event at a place. `is_next`: it was the first of those left; `is_back`: a call that
 * came earlier had passed it over.
 */
void sizes_note(struct sizes *sizes, const struct streams *streams, const struct slot *slot, uint32_t place,
		uint32_t observed, bool is_next, bool is_back);

/* Notes a call that matched no event. */
void sizes_note_extra(struct sizes *sizes);

#endif
