#ifndef KREPLAY_RUNNER_PROCESS_TREE_H
#define KREPLAY_RUNNER_PROCESS_TREE_H

#include <sys/types.h>

/*
 * To the process group, unless it is 0, and to every other descendant of `root`, those in other groups and sessions
 * too. The group has to be one whose number is not free: that of a process that was not reaped yet.
 */
void process_tree_signal(pid_t root, pid_t group, int signal);

/* How many descendants `root` has. */
unsigned process_tree_count(pid_t root);

#endif
