#ifndef KREPLAY_RUNNER_GUARDIAN_H
#define KREPLAY_RUNNER_GUARDIAN_H

#include <sys/types.h>

#include "command/child.h"
#include "command/shared_page.h"

/*
 * Starts the guardian and returns its pid, or -1. The guardian exits when no process that the command started is left.
 * It writes to `news_fd`, an eventfd, when the shared page has changed. The caller must have blocked all signals.
 */
pid_t guardian_start(struct shared *shared, const struct child_work *child, int news_fd);

/* Makes the guardian send `signal` to every process that the command started and that still runs. */
void guardian_signal(struct shared *shared, pid_t guardian, int signal);

#endif
