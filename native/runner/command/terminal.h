#ifndef KREPLAY_RUNNER_TERMINAL_H
#define KREPLAY_RUNNER_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns whether this program is in the foreground of the terminal on fd 0. If so, the command must be in the
   foreground, too. */
bool terminal_is_ours(void);
/* Makes `group` the terminal's foreground group. The caller must have blocked SIGTTOU. */
void terminal_give(pid_t group);
/* Stops this program's job, as the shell expects when the command was stopped. Returns when the job is continued. */
void terminal_stop_job(void);

#endif
