#ifndef KREPLAY_RUNNER_RUN_H
#define KREPLAY_RUNNER_RUN_H

#include <stdint.h>

#include "options.h"

/* Runs the command; the exit code. */
int run_command(const struct options *options);

/* --probe; the exit code. */
int run_probe(void);

/* In the middle of a wait when the time of a call is nearly over. */
uint64_t run_spin_ns(const struct options *options);

#endif
