#ifndef KREPLAY_RUNNER_TERMINAL_H
#define KREPLAY_RUNNER_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns whether this program is in the foreground of the terminal on fd 0: then the command has to be as well. */
bool terminal_is_ours(void);
/* Makes the group the foreground one. The caller has to block SIGTTOU. */
void terminal_give(pid_t group);
/* Stops this program's job, as the shell expects when its command was stopped; returns when it is continued. */
void terminal_stop_job(void);

#endif
