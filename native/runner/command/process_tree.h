#ifndef KREPLAY_RUNNER_PROCESS_TREE_H
#define KREPLAY_RUNNER_PROCESS_TREE_H

#include <sys/types.h>

/*
 * Signals the process group, unless it is 0, and every other descendant of `root`, including those in other groups and
 * sessions. The group's number must not be free: it has to be that of a process that was not reaped yet.
 */
void process_tree_signal(pid_t root, pid_t group, int signal);

/* Returns how many descendants `root` has. */
unsigned process_tree_count(pid_t root);

#endif
