/*
 * THREADS TRANSACTIONS COUNT: each thread makes COUNT fast writes to /dev/null for each of its transactions, one after
 * the other, then as many without a label. Prints one line for each: thread, transaction or `-`, number of writes,
 * bytes, and the sum and the maximum of the durations as the thread itself measures them, in nanoseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static long transactions, count;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void mark(int null, const char *line)
{
	if (write(null, line, strlen(line)) < 0)
		_exit(1);
}

/* Makes the writes of one transaction: the sizes depend on the thread and on the transaction. */
static void work(int null, long thread, const char *transaction, long at)
{
	static const char page[4096];
	long long bytes = 0, sum = 0, longest = 0;

	for (long i = 0; i < count; i++) {
		long size = 1 + (i + at + thread) % 7;
		long long began = now_ns(), took;

		if (write(null, page, size) != size)
			_exit(1);
		took = now_ns() - began;
		bytes += size;
		sum += took;
		if (took > longest)
			longest = took;
	}
	pthread_mutex_lock(&printing);
	printf("%ld %s %ld %lld %lld %lld\n", thread, transaction ? transaction : "-", count, bytes, sum, longest);
	pthread_mutex_unlock(&printing);
}

static void *run(void *argument)
{
	long thread = (long)argument;
	int null = open("/dev/null", O_WRONLY);
	char line[128], name[64];

	for (long at = 0; at < transactions; at++) {
		snprintf(name, sizeof(name), "order-%ld-%ld", thread, at);
		snprintf(line, sizeof(line), "KREPLAY1 txn=%s svc=shop%ld\n", name, thread);
		mark(null, line);
		work(null, thread, name, at);
	}
	mark(null, "KREPLAY1\n");
	work(null, thread, NULL, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	static char output[1 << 20];
	pthread_t threads[64];
	long thread_count = atol(argv[1]);

	if (argc != 4 || thread_count > 64)
		return 1;
	transactions = atol(argv[2]);
	count = atol(argv[3]);
	/* The output is written at the end, under a name that is not recorded. */
	setvbuf(stdout, output, _IOFBF, sizeof(output));
	for (long thread = 0; thread < thread_count; thread++)
		pthread_create(&threads[thread], NULL, run, (void *)thread);
	for (long thread = 0; thread < thread_count; thread++)
		pthread_join(threads[thread], NULL);
	prctl(PR_SET_NAME, "printer");
	fflush(stdout);
	return 0;
}
