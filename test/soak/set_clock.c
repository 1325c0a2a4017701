/*
 * Preloaded into one process, it shifts that process's wall clock by the nanoseconds in the mapped file SET_CLOCK. The
 * machine's own clock is shared by all processes, so it is not set.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000ll

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static const volatile int64_t *off_by_ns;

__attribute__((constructor)) static void open_clock(void)
{
	const char *path = getenv("SET_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*off_by_ns), PROT_READ, MAP_SHARED, fd, 0);

	real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (map == MAP_FAILED || !real_clock_gettime)
		abort();
	off_by_ns = map;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result;
	int64_t ns;

	if (!off_by_ns)
		open_clock();
	result = real_clock_gettime(clock, time);
	if (result || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return result;
	ns = time->tv_sec * SECOND_NS + time->tv_nsec + *off_by_ns;
	time->tv_sec = ns / SECOND_NS;
	time->tv_nsec = ns % SECOND_NS;
	return 0;
}

int gettimeofday(struct timeval *restrict into, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	into->tv_sec = now.tv_sec;
	into->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *into)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (into)
		*into = now.tv_sec;
	return now.tv_sec;
}
