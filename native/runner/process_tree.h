#ifndef KREPLAY_RUNNER_PROCESS_TREE_H
#define KREPLAY_RUNNER_PROCESS_TREE_H

#include <sys/types.h>

/* To the process group and to every other descendant of `root`, those in other groups and sessions too. */
void process_tree_signal(pid_t root, pid_t group, int signal);

/* How many descendants `root` has. */
unsigned process_tree_count(pid_t root);

#endif
