/*
 * A call arrives while its receiver sleeps and a thread of a higher scheduling class occupies the receiver's CPU.
 * Prints how long the call really waited, and the two bounds.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "delay/clock.h"
#include "receive/queue.h"

#define BUSY_NS (100 * NS_PER_MS)
/* Time until the receiver certainly sleeps. */
#define BEFORE_US 500000
#define TID 1000

static int ends[2];
static uint64_t called_ns;

static void *be_busy(void *unused)
{
	cpu_set_t first;

	(void)unused;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
	usleep(BEFORE_US);
	called_ns = clock_ns();
	write(ends[1], "x", 1);
	while (clock_ns() - called_ns < BUSY_NS)
		continue;
	return NULL;
}

int main(void)
{
	static struct queue queue;
	cpu_set_t first;
	pthread_t busy;
	char byte;

	pipe(ends);
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	pthread_create(&busy, NULL, be_busy, NULL);
	queue_init(&queue, ends[0], clock_ns());
	queue_look(&queue, clock_ns());
	read(ends[0], &byte, 1);
	const uint64_t received_ns = clock_ns();
	const uint64_t waited_ns = queue_waited(&queue, TID, received_ns);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", received_ns - called_ns, waited_ns,
	       queue_waited_for_cpu(&queue, waited_ns, received_ns));
	pthread_join(busy, NULL);
	return 0;
}
