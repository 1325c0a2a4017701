#ifndef KREPLAY_RUNNER_FAULTS_H
#define KREPLAY_RUNNER_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "match.h"
#include "plan.h"

/* Which calls may have the errors of events, and be made short like them. */
struct faults {
	const struct plan *plan;
	uint8_t *op_of_event; /* OP_* */
};

bool faults_make(struct faults *faults, const struct plan *plan);

/*
 * Leaves a match the faults that its call can have. Calls match by what they are for, fdatasync(2) where fsync(2) was
 * recorded, but an error may be one that only the recorded call can have. sync(2) has none.
 */
void faults_fit(const struct faults *faults, struct match *match, unsigned op);

#endif
