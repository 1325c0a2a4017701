/* Usage: crowd FILE THREADS CALLS. All threads write at once; prints the thread, begin and end of each call. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES 65536

struct call {
	uint64_t began_ns, ended_ns;
};

struct member {
	pthread_t thread;
	int tid;
	struct call *calls;
};

static pthread_barrier_t all_there;
static int file, calls;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void *write_all(void *argument)
{
	struct member *member = argument;

	member->tid = gettid();
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < calls; i++) {
		member->calls[i].began_ns = now_ns();
		if (write(file, "x", 1) != 1)
			exit(1);
		member->calls[i].ended_ns = now_ns();
	}
	return NULL;
}

int main(int words, char **word)
{
	pthread_attr_t attributes;

	if (words != 4)
		return 2;
	const int threads = atoi(word[2]);
	struct member *members = calloc(threads, sizeof(*members));
	calls = atoi(word[3]);
	file = open(word[1], O_CREAT | O_WRONLY | O_APPEND, 0666);
	pthread_barrier_init(&all_there, NULL, threads);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (int i = 0; i < threads; i++) {
		members[i].calls = calloc(calls, sizeof(*members[i].calls));
		if (pthread_create(&members[i].thread, &attributes, write_all, &members[i]) != 0)
			return 1;
	}
	for (int i = 0; i < threads; i++)
		pthread_join(members[i].thread, NULL);
	for (int i = 0; i < threads; i++)
		for (int j = 0; j < calls; j++)
			printf("%d %llu %llu\n", members[i].tid, (unsigned long long)members[i].calls[j].began_ns,
			       (unsigned long long)members[i].calls[j].ended_ns);
	return 0;
}
