#ifndef KREPLAY_RUNNER_TIMERS_H
#define KREPLAY_RUNNER_TIMERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "heap.h"

/* The thread that hands back held calls when they are due. */
struct timers {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct heap heap;
	_Atomic uint32_t version; /* of the heap's first: a spinning thread looks at it without the lock */
	bool is_stopping;
	bool is_hurried;
	uint64_t spin_ns;
	void (*due)(void *context, struct call *call);
	void *context;
	pthread_t thread;
};

bool timers_start(struct timers *timers, uint64_t spin_ns, void (*due)(void *context, struct call *call),
		  void *context);
/* False: no memory; the call was not taken. */
bool timers_push(struct timers *timers, struct call *call);
/* Takes the call back, if it is still held and still that one. */
bool timers_take(struct timers *timers, struct call *call, uint64_t id);
/* While hurried, every call is due at once. */
void timers_hurry(struct timers *timers, bool is_hurried);
/* Calls that are still held then are due at once. */
void timers_stop(struct timers *timers);

#endif
