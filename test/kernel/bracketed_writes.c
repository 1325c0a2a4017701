/*
 * Writes into a pipe that a child empties slowly, and reads the wall clock before and after each call. At the end it
 * prints `before after result` for each call, in nanoseconds since the epoch.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS 211
#define BYTES 8192

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int main(void)
{
	static long long before[CALLS], after[CALLS];
	static char data[BYTES];
	ssize_t results[CALLS];
	int ends[2];

	if (pipe(ends))
		return 1;
	if (!fork()) {
		close(ends[1]);
		while (read(ends[0], data, BYTES) > 0)
			usleep(500);
		_exit(0);
	}
	close(ends[0]);
	for (int i = 0; i < CALLS; i++) {
		before[i] = now();
		results[i] = write(ends[1], data, BYTES);
		after[i] = now();
	}
	close(ends[1]);
	wait(NULL);
	for (int i = 0; i < CALLS; i++)
		printf("%lld %lld %zd\n", before[i], after[i], results[i]);
	return 0;
}
