#ifndef KREPLAY_RUNNER_TERMINAL_H
#define KREPLAY_RUNNER_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether this program is in the foreground of the terminal that is fd 0: then the command has to be. */
bool terminal_is_ours(void);
/* SIGTTOU has to be blocked. */
void terminal_give(pid_t group);
/* Stops this program's job, as the shell expects of one whose command was stopped; returns when it goes on. */
void terminal_stop_job(void);

#endif
