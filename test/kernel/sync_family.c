/*
 * Makes calls of each of the sync family in two threads, on FILE, and reads the wall clock before and after each. At
 * the end it prints `thread syscall before after result` for each, in nanoseconds since the epoch; the result is what
 * the kernel returned.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2
#define CALLS_MAX 256
#define BYTES 65536

struct call {
	const char *name;
	long long before, after, result;
};

static struct thread {
	pthread_t id;
	long tid;
	struct call calls[CALLS_MAX];
	int count;
} threads[THREADS];
static int fd, pipe_fd;
static char *mapped;

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void call(struct thread *thread, const char *name, long number, long a, long b, long c, long d)
{
	struct call *call = &thread->calls[thread->count++];

	call->name = name;
	call->before = now();
	call->result = syscall(number, a, b, c, d);
	call->after = now();
	if (call->result < 0)
		call->result = -errno;
}

/* Each turn makes something to sync; some calls are made in every turn, others in some turns only. */
static void *calls(void *argument)
{
	struct thread *thread = argument;
	long range = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

	thread->tid = syscall(SYS_gettid);
	for (int i = 0; i < 31; i++) {
		if (pwrite(fd, thread, 4096, 0) != 4096)
			exit(1);
		call(thread, "fsync", SYS_fsync, fd, 0, 0, 0);
		mapped[4096 * (i % 8)]++;
		if (i % 2)
			call(thread, "msync", SYS_msync, (long)mapped, BYTES, MS_SYNC, 0);
		if (i % 3)
			call(thread, "fdatasync", SYS_fdatasync, fd, 0, 0, 0);
		if (i % 5)
			call(thread, "sync_file_range", SYS_sync_file_range, fd, 0, BYTES, range);
		if (i % 7 == 0)
			call(thread, "syncfs", SYS_syncfs, fd, 0, 0, 0);
		if (i % 29 == 0)
			call(thread, "sync", SYS_sync, 0, 0, 0, 0);
	}
	call(thread, "fsync", SYS_fsync, 9999, 0, 0, 0);
	call(thread, "fdatasync", SYS_fdatasync, pipe_fd, 0, 0, 0);
	call(thread, "msync", SYS_msync, (long)mapped + 1, BYTES, MS_SYNC, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	int ends[2];

	if (argc != 2 || pipe(ends))
		return 2;
	pipe_fd = ends[1];
	fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, BYTES))
		return 1;
	mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return 1;
	for (int t = 0; t < THREADS; t++)
		pthread_create(&threads[t].id, NULL, calls, &threads[t]);
	for (int t = 0; t < THREADS; t++)
		pthread_join(threads[t].id, NULL);
	for (int t = 0; t < THREADS; t++)
		for (int i = 0; i < threads[t].count; i++) {
			struct call *call = &threads[t].calls[i];

			printf("%ld %s %lld %lld %lld\n", threads[t].tid, call->name, call->before, call->after,
			       call->result);
		}
	return 0;
}
