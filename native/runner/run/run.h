#ifndef KREPLAY_RUNNER_RUN_H
#define KREPLAY_RUNNER_RUN_H

#include <stdint.h>

#include "plan/options.h"

/* Runs the command and returns the exit code. */
int run_command(const struct options *options);

/* Runs --probe and returns the exit code. */
int run_probe(void);

/* Returns how long to busy-wait at the end of a call's wait. */
uint64_t run_spin_ns(const struct options *options);

#endif
