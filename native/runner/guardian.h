#ifndef KREPLAY_RUNNER_GUARDIAN_H
#define KREPLAY_RUNNER_GUARDIAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "child.h"
#include "shared_page.h"

struct guardian_work {
	struct child_work *child;
	int news_fd; /* eventfd: something in the page changed */
	bool pass_on_death;
};

/*
 * The guardian's pid, or -1. It ends when nothing that the command started is left. All signals have to be blocked.
 */
pid_t guardian_start(struct shared *shared, const struct guardian_work *work);

/* To everything that the command started and that still runs. */
void guardian_signal(struct shared *shared, pid_t guardian, int signal);

#endif
