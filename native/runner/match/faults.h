#ifndef KREPLAY_RUNNER_FAULTS_H
#define KREPLAY_RUNNER_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "match/match.h"
#include "plan/plan.h"

/* Decides which calls may get the errors of events, or be made short like them. */
struct faults {
	const struct plan *plan;
	uint8_t *op_of_event; /* OP_* */
};

bool faults_make(struct faults *faults, const struct plan *plan);

/*
 * Removes the faults from a match that its call cannot have. Calls are matched by their purpose, so an fdatasync(2) may
 * match a recorded fsync(2), but some errors are only possible for the recorded call. sync(2) cannot fail.
 */
void faults_fit(const struct faults *faults, struct match *match, unsigned op);

#endif
