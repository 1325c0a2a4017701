#ifndef KREPLAY_RUNNER_SIGNALS_H
#define KREPLAY_RUNNER_SIGNALS_H

#include "command/child.h"

/*
 * Blocks the signals that the runner and the guardian handle. Returns a signalfd for SIGCHLD and the signals that are
 * passed on to the command. Stores the previous mask and the previous SIGPIPE action in `child`, which starts with
 * them.
 */
int signals_take(struct child_work *child);

/* Returns the next signal, or 0 if none has arrived. */
int signals_next(int signal_fd);

#endif
