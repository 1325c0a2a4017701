#ifndef KREPLAY_RUNNER_SIGNAL_STACKS_H
#define KREPLAY_RUNNER_SIGNAL_STACKS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define SIGNAL_STACKS_MAX 256
#define SEARCHED_PROCESSES_MAX 16

/* The stacks on which a process was seen to handle signals (sigaltstack), by the addresses at which they end. */
struct process_stacks {
	uint32_t process; /* 0: unused */
	uint32_t count;
	uint64_t searched_until_ns; /* no search earlier than this */
	uint64_t ends[SIGNAL_STACKS_MAX];
};

/*
 * The kernel does not show where such a stack lies. But the frame that it leaves there for a handler has the stack's
 * own bounds, so a search in the memory of a process finds each stack on which a handler has run.
 */
struct signal_stacks {
	pthread_mutex_t lock;
	uint32_t next; /* the process whose place is taken next */
	struct process_stacks processes[SEARCHED_PROCESSES_MAX];
};

void signal_stacks_init(struct signal_stacks *stacks);
/* Copies the ends of a process's known stacks, and returns their number. */
size_t signal_stacks_get(struct signal_stacks *stacks, uint32_t process, uint64_t ends[static SIGNAL_STACKS_MAX]);
/* Searches, unless searches took more than a small share of the time. Returns the number of stacks that are new. */
size_t signal_stacks_search(struct signal_stacks *stacks, uint32_t process);

#endif
