#ifndef KREPLAY_RUNNER_SUPERVISE_H
#define KREPLAY_RUNNER_SUPERVISE_H

#include "run_state.h"

/* Until the command and everything that it started has ended. */
void supervise(struct run *run);

/* Ends all of it at once. */
void supervise_kill(struct run *run);

#endif
