/*
 * Bounds how long a call may have waited before it was received. The kernel does not report when a thread made its
 * call, but delivers calls in the order in which they arrived:
 *
 *   - a call that is received now arrived after the queue was last seen empty,
 *   - after the previous answer to its thread,
 *   - and after the previous answers to the threads of all calls that were received before it.
 *
 * The latest of these times is the bound. If the queue is empty most of the time, the bound is some microseconds.
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
	bool is_backed_up; /* calls were waiting at the last look */
	uint64_t looked_ns;
	uint64_t asked_ns; /* when the runner asked for the next call */
	uint64_t after_ns; /* all calls that are not received yet arrived after this */
	int schedstat;     /* file of the receiving thread; -1: there is none */
	uint64_t delay_ns; /* time that the thread was ready without a CPU, at the last look at the queue */
	_Atomic uint64_t answers[QUEUE_THREADS];
};

/* All functions run on the receiving thread, except queue_answer(). */
void queue_init(struct queue *queue, int listener, uint64_t now_ns);

/* Called before a call is received. */
void queue_look(struct queue *queue, uint64_t now_ns);
/* Returns the longest time that the call may have waited, if this thread had a CPU as soon as a call woke it. */
uint64_t queue_waited(struct queue *queue, uint32_t tid, uint64_t received_ns);
/*
 * Like queue_waited(), but includes the time that this thread waited for a CPU. Asking the kernel for that time takes a
 * microsecond, so this is for calls that are held.
 */
uint64_t queue_waited_for_cpu(const struct queue *queue, uint64_t waited_ns, uint64_t received_ns);

/* Called on any thread, before the answer is sent. */
void queue_answer(struct queue *queue, uint32_t tid, uint64_t now_ns);

#endif
