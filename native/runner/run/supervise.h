#ifndef KREPLAY_RUNNER_SUPERVISE_H
#define KREPLAY_RUNNER_SUPERVISE_H

#include "run/run_state.h"

/* Runs until the command and all processes that it started have ended. */
void supervise(struct run *run);

/* Kills all these processes at once. */
void supervise_kill(struct run *run);

#endif
