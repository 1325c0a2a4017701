#ifndef KREPLAY_RUNNER_HEAP_H
#define KREPLAY_RUNNER_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "delay/call.h"

/* A heap of calls with the earliest deadline first. Each call has its index in it, so that any call can be removed. */
struct heap {
	struct call **calls;
	uint32_t count;
	uint32_t room;
};

/* Returns false if there is no memory. */
bool heap_push(struct heap *heap, struct call *call);
void heap_remove(struct heap *heap, struct call *call);
/* Returns NULL if the heap is empty. */
struct call *heap_first(const struct heap *heap);
/* Returns how many calls are due before that time, but at most `most`. */
uint32_t heap_due_before(const struct heap *heap, uint64_t time_ns, uint32_t most);
void heap_free(struct heap *heap);

#endif
