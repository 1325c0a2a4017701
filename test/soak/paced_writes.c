/*
 * Writes to /dev/null, each identified by its size: 1, 2, 3, and so on. The second argument is the number of writes a
 * millisecond. They have absolute deadlines, so that the program catches up after a delay. Until SIGTERM, it adds an
 * entry for each millisecond to the file of the first argument: the number of its first write, and when the first one
 * began and the last one ended, in nanoseconds since the epoch. The file is mapped: keeping that list makes no call.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NUMBER_MAX 0x7ffff000l
#define BATCHES_MAX (24l * 3600 * 1000)

struct batch {
	uint64_t first;
	uint64_t began_ns;
	uint64_t ended_ns;
};

static volatile sig_atomic_t ending;

static void end(int signal)
{
	(void)signal;
	ending = 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int main(int argc, char **argv)
{
	/* It is opened first: the writes go to descriptor 3. */
	int null = open("/dev/null", O_WRONLY);
	long a_millisecond = argc == 3 ? atol(argv[2]) : 0;
	int list = argc == 3 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	/* It is never read: /dev/null accepts any size. */
	char *buffer = mmap(NULL, NUMBER_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct batch *batches;
	struct timespec deadline;
	uint64_t number = 1;
	long count = 0;

	if (null != 3 || list < 0 || buffer == MAP_FAILED || ftruncate(list, BATCHES_MAX * sizeof(*batches)))
		return 1;
	batches = mmap(NULL, BATCHES_MAX * sizeof(*batches), PROT_WRITE, MAP_SHARED, list, 0);
	if (batches == MAP_FAILED)
		return 1;
	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	while (!ending && count < BATCHES_MAX && number + a_millisecond < NUMBER_MAX) {
		struct batch *batch = &batches[count++];

		batch->first = number;
		batch->began_ns = now_ns();
		for (long i = 0; i < a_millisecond; i++, number++)
			if (write(null, buffer, number) != (long)number)
				return 1;
		batch->ended_ns = now_ns();
		deadline.tv_nsec += 1000000;
		if (deadline.tv_nsec >= 1000000000) {
			deadline.tv_nsec -= 1000000000;
			deadline.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);
	}
	return ftruncate(list, count * sizeof(*batches)) ? 1 : 0;
}
