#ifndef KREPLAY_RUNNER_PROCESS_TREE_H
#define KREPLAY_RUNNER_PROCESS_TREE_H

#include <sys/types.h>

/*
 * Signals the process group, unless it is 0, and every other descendant of `root`, including those in other groups and
 * sessions. The process with the group's number must not be reaped yet, because another group could then get this
 * number.
 */
void process_tree_signal(pid_t root, pid_t group, int signal);

/* Returns the number of descendants of `root` that have not ended. */
unsigned process_tree_count(pid_t root);

#endif
