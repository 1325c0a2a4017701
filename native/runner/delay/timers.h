#ifndef KREPLAY_RUNNER_TIMERS_H
#define KREPLAY_RUNNER_TIMERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "delay/heap.h"

/* A thread that returns held calls when they are due. */
struct timers {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct heap heap;
	_Atomic uint32_t version; /* changes with the heap's first call: a spinning thread reads it without the lock */
	bool is_stopping;
	bool is_hurried;
	uint64_t spin_ns;
	void (*due)(void *context, struct call *call);
	void *context;
	pthread_t thread;
};

bool timers_start(struct timers *timers, uint64_t spin_ns, void (*due)(void *context, struct call *call),
		  void *context);
/* Returns false if there is no memory; the call was then not taken. */
bool timers_push(struct timers *timers, struct call *call);
/* Removes the call, if it is still held and still has that id. */
bool timers_take(struct timers *timers, struct call *call, uint64_t id);
/* While hurried, every call is due at once. */
void timers_hurry(struct timers *timers, bool is_hurried);
/* Stops the thread; calls that are still held are due at once. */
void timers_stop(struct timers *timers);

#endif
