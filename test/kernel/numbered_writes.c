/*
 * Writes to /dev/null, each identified by its size: 1, 2, 3, and so on. The first argument is the number of writes a
 * millisecond (0: as fast as possible). It ends at SIGTERM, or after the number of writes in the second argument. Then
 * it prints when each write began, in nanoseconds since the epoch, one a line.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WRITES_MAX (32 << 20)

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
	const struct timespec pause = {.tv_nsec = 1000000};
	long a_pause = argc > 1 ? atol(argv[1]) : 0;
	long most = argc > 2 ? atol(argv[2]) : WRITES_MAX;
	int null = open("/dev/null", O_WRONLY);
	/* /dev/null accepts any size, and reads nothing. */
	char *buffer = mmap(NULL, WRITES_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t *began = malloc(most * sizeof(*began));
	long count = 0;

	if (null < 0 || buffer == MAP_FAILED || !began || most > WRITES_MAX)
		return 1;
	/* A text of a marker's length has to be in memory, so that the recorder sees that it is none. */
	(void)*(volatile char *)buffer;
	signal(SIGTERM, end);
	while (!ending && count < most) {
		began[count] = now_ns();
		if (write(null, buffer, count + 1) != count + 1)
			return 1;
		count++;
		if (a_pause > 0 && count % a_pause == 0)
			nanosleep(&pause, NULL);
	}
	for (long i = 0; i < count; i++)
		printf("%lu\n", began[i]);
	return 0;
}
