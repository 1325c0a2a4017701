/* The load: 64-byte writes to /dev/null, as fast as one CPU makes them. Prints one line of JSON. */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WRITE_SIZE 64
/* Well under a timer tick: most batches then hold no interrupt, and the median none. */
#define BATCH_WRITES 1000
#define BATCHES_MAX 1000000

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void write_batch(int fd)
{
	static const char text[WRITE_SIZE];

	for (int i = 0; i < BATCH_WRITES; i++) {
		if (write(fd, text, WRITE_SIZE) != WRITE_SIZE)
			err(1, "write");
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static double batch_ns[BATCHES_MAX];
	double start_ns, end_ns, user_ns;
	struct rusage usage;
	cpu_set_t cpus;
	int batches = 0, fd;

	if (argc != 3)
		errx(2, "usage: write_load CPU SECONDS");
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[1]);
	fd = open("/dev/null", O_WRONLY);
	if (fd < 0)
		err(1, "/dev/null");

	end_ns = start_ns = now_ns();
	while (end_ns - start_ns < atof(argv[2]) * 1e9 && batches < BATCHES_MAX) {
		double batch_start_ns = end_ns;

		write_batch(fd);
		end_ns = now_ns();
		batch_ns[batches++] = end_ns - batch_start_ns;
	}

	qsort(batch_ns, batches, sizeof(*batch_ns), compare);
	getrusage(RUSAGE_SELF, &usage);
	user_ns = usage.ru_utime.tv_sec * 1e9 + usage.ru_utime.tv_usec * 1e3;
	/* This line is a write of this process too: counted, so that a recording of it must add up. */
	printf("{\"pid\": %d, \"writes\": %d, \"median_ns\": %.1f, \"fastest_ns\": %.1f, \"user_ns\": %.0f}\n",
	       getpid(), batches * BATCH_WRITES + 1, batch_ns[batches / 2] / BATCH_WRITES, batch_ns[0] / BATCH_WRITES,
	       user_ns);
	return 0;
}
