#ifndef KREPLAY_RUNNER_MAKERS_H
#define KREPLAY_RUNNER_MAKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "delay/call.h"

#define MAKERS_MAX 64

struct server;

/*
 * Threads that make calls in place of the build, on its own open files, and answer them when their time is over. A sync
 * that is to take as long as planned has to be made first, to find how much of that time is left. A write can be made
 * short only by the process that makes it. The threads also look at calls, which may take long.
 */
struct makers {
	struct server *server;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct call *first, *last; /* waiting */
	unsigned waiting;
	unsigned idle;
	unsigned count;
	bool is_stopping;
	uint64_t median_ns; /* approximate median duration of syncs made here */
	pthread_t threads[MAKERS_MAX];
};

void makers_init(struct makers *makers, struct server *server);
void makers_run(struct makers *makers, struct call *call);
void makers_stop(struct makers *makers);

#endif
