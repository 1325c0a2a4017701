#include "receive/queue.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "delay/clock.h"

/*
 * A look costs a tenth of an answer, and more than an answer if many calls wait or are held: the kernel walks a list.
 */
#define LOOK_EVERY_NS (20 * NS_PER_US)
#define LOOK_AGAIN_NS (200 * NS_PER_US)

/* Format of an answer: the time in units of 1024 ns, rounded down, and the thread. PID_MAX_LIMIT is 2^22. */
#define TID_BITS 22
#define TIME_SHIFT 10

void queue_init(struct queue *queue, int listener, uint64_t now_ns)
{
	*queue = (struct queue){
	    .listener = listener,
	    .began_ns = now_ns,
	    .looked_ns = now_ns,
	    .after_ns = now_ns,
	    .schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC),
	};
}

/* Returns how long this thread was ready to run without a CPU: the second number of the file. */
static uint64_t delay_ns(const struct queue *queue)
{
	char text[96];
	const ssize_t bytes = queue->schedstat < 0 ? -1 : pread(queue->schedstat, text, sizeof(text) - 1, 0);

	if (bytes <= 0)
		return 0;
	text[bytes] = 0;
	const char *second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) : 0;
}

static uint64_t look_interval_ns(const struct queue *queue)
{
	return queue->is_backed_up ? LOOK_AGAIN_NS : LOOK_EVERY_NS;
}

void queue_look(struct queue *queue, uint64_t now_ns)
{
	struct pollfd listener = {.fd = queue->listener, .events = POLLIN};

	queue->asked_ns = now_ns;
	if (now_ns - queue->looked_ns < look_interval_ns(queue))
		return;
	queue->looked_ns = now_ns;
	queue->delay_ns = delay_ns(queue);
	queue->is_backed_up = poll(&listener, 1, 0) > 0 && (listener.revents & POLLIN);
	if (!queue->is_backed_up && now_ns > queue->after_ns)
		queue->after_ns = now_ns;
}

/* Receiving a call that is already queued takes no longer than this; otherwise, it arrived during the wait. */
static uint64_t there_until_ns(const struct queue *queue)
{
	return queue->asked_ns + look_interval_ns(queue);
}

uint64_t queue_waited(struct queue *queue, uint32_t tid, uint64_t received_ns)
{
	const uint64_t answer = atomic_load_explicit(&queue->answers[tid % QUEUE_THREADS], memory_order_relaxed);
	const uint64_t answered_ns = queue->began_ns + (answer >> TID_BITS << TIME_SHIFT);

	if ((answer & ((1u << TID_BITS) - 1)) == tid && answered_ns > queue->after_ns)
		queue->after_ns = answered_ns;
	const uint64_t there_ns = there_until_ns(queue);
	const uint64_t until_ns = received_ns < there_ns ? received_ns : there_ns;
	return until_ns > queue->after_ns ? until_ns - queue->after_ns : 0;
}

uint64_t queue_waited_for_cpu(const struct queue *queue, uint64_t waited_ns, uint64_t received_ns)
{
	if (received_ns <= there_until_ns(queue) || received_ns <= queue->after_ns)
		return waited_ns;
	const uint64_t most_ns = received_ns - queue->after_ns;
	const uint64_t grown_ns = waited_ns + delay_ns(queue) - queue->delay_ns;
	return grown_ns < most_ns ? grown_ns : most_ns;
}

void queue_answer(struct queue *queue, uint32_t tid, uint64_t now_ns)
{
	const uint64_t time = (now_ns - queue->began_ns) >> TIME_SHIFT;

	atomic_store_explicit(&queue->answers[tid % QUEUE_THREADS], time << TID_BITS | tid, memory_order_relaxed);
}
