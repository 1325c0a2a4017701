#ifndef KREPLAY_RUNNER_HEAP_H
#define KREPLAY_RUNNER_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "call.h"

/* Calls, that with the earliest deadline first. Each knows its place, so that any can be taken out. */
struct heap {
	struct call **calls;
	uint32_t count;
	uint32_t room;
};

/* False: no memory. */
bool heap_push(struct heap *heap, struct call *call);
void heap_remove(struct heap *heap, struct call *call);
/* NULL: empty. */
struct call *heap_first(const struct heap *heap);
/* How many are due before then; counts no further than `most`. */
uint32_t heap_due_before(const struct heap *heap, uint64_t time_ns, uint32_t most);
void heap_free(struct heap *heap);

#endif
