#ifndef KREPLAY_RUNNER_CHILD_H
#define KREPLAY_RUNNER_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "command/shared_page.h"
#include "seccomp/filter.h"

/* The work of a process whose calls the seccomp filter intercepts: a command or a function. */
struct child_work {
	struct filter *filter;
	char **command; /* used if `run` is NULL */
	void (*run)(void *run_context);
	void *run_context;
	sigset_t signal_mask; /* the runner's mask at its start, which the command gets */
	struct sigaction on_pipe;
	bool takes_terminal; /* whether the command becomes the foreground of the terminal on fd 0 */
};

/* Works like fork(), but both processes share one table of fds. */
pid_t clone_with_fds(void);

/* Runs the work in the calling process, which is a child of `parent`. */
_Noreturn void child_main(struct shared *shared, const struct child_work *work, pid_t parent);

#endif
