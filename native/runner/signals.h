#ifndef KREPLAY_RUNNER_SIGNALS_H
#define KREPLAY_RUNNER_SIGNALS_H

#include "child.h"

/*
 * Blocks them all, and gives a signalfd of those that are for the command, and SIGCHLD. What was set before goes into
 * `child`, which is to start with it.
 */
int signals_take(struct child_work *child);

/* 0: none has come. */
int signals_next(int signal_fd);

#endif
