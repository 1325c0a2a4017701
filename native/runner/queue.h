/*
 * How long a call may have waited before it was received. The kernel does not say when a thread made its call, but
 * gives calls out in the order in which they came:
 *
 *   - a call that is received now came after the queue was last seen empty,
 *   - after the previous answer to its thread,
 *   - and after the previous answers to the threads of all calls that were received before it.
 *
 * The latest of these is the bound. Where the queue is empty most of the time it is some microseconds.
 */
#ifndef KREPLAY_RUNNER_QUEUE_H
#define KREPLAY_RUNNER_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define QUEUE_THREADS 4096

struct queue {
	int listener;
	uint64_t began_ns;
	bool is_backed_up; /* when it was last looked at */
	uint64_t looked_ns;
	uint64_t asked_ns; /* for the call that is received next */
	uint64_t after_ns; /* all calls that are still to be received came after this */
	int schedstat;     /* of the receiving thread; -1: there is none */
	uint64_t delay_ns; /* for how long it had been ready to run without a CPU, when the queue was last looked at */
	_Atomic uint64_t answers[QUEUE_THREADS];
};

/* On the receiving thread, as what follows. */
void queue_init(struct queue *queue, int listener, uint64_t now_ns);

/* Before a call is received. */
void queue_look(struct queue *queue, uint64_t now_ns);
/* The longest that it may have waited, if this thread had a CPU as soon as a call woke it. */
uint64_t queue_waited(struct queue *queue, uint32_t tid, uint64_t received_ns);
/* The same with the time that it waited for one. To ask the kernel takes a microsecond: for calls that are held. */
uint64_t queue_waited_for_cpu(const struct queue *queue, uint64_t waited_ns, uint64_t received_ns);

/* On any thread, before the answer is given. */
void queue_answer(struct queue *queue, uint32_t tid, uint64_t now_ns);

#endif
