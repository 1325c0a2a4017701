#include "delay/heap.h"

#include <stdlib.h>

static void place(struct heap *heap, uint32_t at, struct call *call)
{
	heap->calls[at] = call;
	call->heap_index = at;
}

static void sift_up(struct heap *heap, uint32_t at, struct call *call)
{
	while (at > 0) {
		const uint32_t parent = (at - 1) / 2;

		if (heap->calls[parent]->deadline_ns <= call->deadline_ns)
			break;
		place(heap, at, heap->calls[parent]);
		at = parent;
	}
	place(heap, at, call);
}

static void sift_down(struct heap *heap, uint32_t at, struct call *call)
{
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count && heap->calls[child + 1]->deadline_ns < heap->calls[child]->deadline_ns)
			child++;
		if (call->deadline_ns <= heap->calls[child]->deadline_ns)
			break;
		place(heap, at, heap->calls[child]);
		at = child;
	}
	place(heap, at, call);
}

bool heap_push(struct heap *heap, struct call *call)
{
	if (heap->count == heap->room) {
		const uint32_t room = heap->room ? heap->room * 2 : 256;
		struct call **calls = realloc(heap->calls, room * sizeof(*calls));

		if (!calls)
			return false;
		heap->calls = calls;
		heap->room = room;
	}
	sift_up(heap, heap->count++, call);
	return true;
}

void heap_remove(struct heap *heap, struct call *call)
{
	const uint32_t at = call->heap_index;
	struct call *last = heap->calls[--heap->count];

	call->heap_index = NOT_IN_HEAP;
	if (last == call)
		return;
	sift_down(heap, at, last);
	sift_up(heap, last->heap_index, last);
}

struct call *heap_first(const struct heap *heap)
{
	return heap->count ? heap->calls[0] : NULL;
}

static void count_due(const struct heap *heap, uint32_t at, uint64_t time_ns, uint32_t most, uint32_t *count)
{
	if (at >= heap->count || *count >= most || heap->calls[at]->deadline_ns >= time_ns)
		return;
	++*count;
	count_due(heap, 2 * at + 1, time_ns, most, count);
	count_due(heap, 2 * at + 2, time_ns, most, count);
}

uint32_t heap_due_before(const struct heap *heap, uint64_t time_ns, uint32_t most)
{
	uint32_t count = 0;

	count_due(heap, 0, time_ns, most, &count);
	return count;
}

void heap_free(struct heap *heap)
{
	free(heap->calls);
}
