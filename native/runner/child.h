#ifndef KREPLAY_RUNNER_CHILD_H
#define KREPLAY_RUNNER_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "filter.h"
#include "shared_page.h"

/* What runs behind the filter. */
struct child_work {
	struct filter *filter;
	char **command; /* or */
	void (*run)(void *run_context);
	void *run_context;
	sigset_t signal_mask; /* that this program was started with, and so the command is */
	struct sigaction on_pipe;
	bool takes_terminal; /* the foreground of the terminal that is fd 0 */
};

/* fork(), but with one table of fds. */
pid_t clone_with_fds(void);

/* In a process of its own, whose parent is `parent`. */
_Noreturn void child_main(struct shared *shared, const struct child_work *work, pid_t parent);

#endif
