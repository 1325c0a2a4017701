#ifndef KREPLAY_RUNNER_SIGNALS_H
#define KREPLAY_RUNNER_SIGNALS_H

#include "command/child.h"

/*
 * Blocks the signals that the runner and the guardian handle, and returns a signalfd of those meant for the command,
 * and SIGCHLD. The previous mask and action go into `child`, which is to start with them.
 */
int signals_take(struct child_work *child);

/* Returns the next signal, or 0 if none has arrived. */
int signals_next(int signal_fd);

#endif
