#ifndef KREPLAY_RUNNER_SYNC_WORKERS_H
#define KREPLAY_RUNNER_SYNC_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "call.h"

#define SYNC_WORKERS_MAX 64

struct server;

/*
 * A sync that is to take as long as planned has to be made first, to know how much of that is left. So it is made here,
 * on the caller's own open file, and answered when its time is over.
 */
struct sync_workers {
	struct server *server;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct call *first, *last; /* waiting */
	unsigned waiting;
	unsigned idle;
	unsigned count;
	bool is_stopping;
	uint64_t median_ns; /* of those made here, about */
	pthread_t threads[SYNC_WORKERS_MAX];
};

void sync_workers_init(struct sync_workers *workers, struct server *server);
void sync_workers_run(struct sync_workers *workers, struct call *call);
void sync_workers_stop(struct sync_workers *workers);

#endif
