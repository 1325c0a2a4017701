#include "queue.h"

#include <poll.h>

#include "clock.h"

/* To look costs a tenth of an answer; where many calls wait or are held, more than one: the kernel walks a list. */
#define LOOK_EVERY_NS (20 * NS_PER_US)
#define LOOK_AGAIN_NS (200 * NS_PER_US)

/* Of an answer: the time in units of 1024 ns, rounded down, and the thread. PID_MAX_LIMIT is 2^22. */
#define TID_BITS 22
#define TIME_SHIFT 10

void queue_init(struct queue *queue, int listener, uint64_t now_ns)
{
	*queue = (struct queue){.listener = listener, .began_ns = now_ns, .looked_ns = now_ns, .after_ns = now_ns};
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
	queue->is_backed_up = poll(&listener, 1, 0) > 0 && (listener.revents & POLLIN);
	if (!queue->is_backed_up && now_ns > queue->after_ns)
		queue->after_ns = now_ns;
}

uint64_t queue_waited(struct queue *queue, uint32_t tid, uint64_t received_ns)
{
	const uint64_t answer = atomic_load_explicit(&queue->answers[tid % QUEUE_THREADS], memory_order_relaxed);
	const uint64_t answered_ns = queue->began_ns + (answer >> TID_BITS << TIME_SHIFT);

	if ((answer & ((1u << TID_BITS) - 1)) == tid && answered_ns > queue->after_ns)
		queue->after_ns = answered_ns;
	/* To receive one that is there takes no longer than this: else it came while it was waited for. */
	const uint64_t there_ns = queue->asked_ns + look_interval_ns(queue);
	const uint64_t until_ns = received_ns < there_ns ? received_ns : there_ns;
	return until_ns > queue->after_ns ? until_ns - queue->after_ns : 0;
}

void queue_answer(struct queue *queue, uint32_t tid, uint64_t now_ns)
{
	const uint64_t time = (now_ns - queue->began_ns) >> TIME_SHIFT;

	atomic_store_explicit(&queue->answers[tid % QUEUE_THREADS], time << TID_BITS | tid, memory_order_relaxed);
}
