#ifndef KREPLAY_RUNNER_PLAN_H
#define KREPLAY_RUNNER_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "gen/format.h"
#include "report/failure.h"

/* A plan file in memory, whose offsets and counts were all checked. */
struct plan {
	const struct plan_header *header;
	const struct plan_stream *streams;
	const struct plan_slot *slots;
	const struct plan_event *events;
	const char *strings;
	size_t bytes;
};

bool plan_open(struct plan *plan, const char *path, struct failure *failure);
/* Checks a plan in memory. The bytes have to be aligned to 8 and stay valid. */
bool plan_check(struct plan *plan, const void *bytes, size_t count, struct failure *failure);
void plan_close(struct plan *plan);

static inline const char *plan_string(const struct plan *plan, uint32_t offset)
{
	return plan->strings + offset;
}

#endif
