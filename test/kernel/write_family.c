/* A known workload: makes COUNT calls of each of the write family, in each of THREADS threads of each of PROCESSES. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int count, fd;
static char data[64];

static void check(ssize_t result, ssize_t expected)
{
	if (result != expected) {
		perror("write");
		exit(1);
	}
}

static void *calls(void *unused)
{
	struct iovec parts[11];

	(void)unused;
	for (int i = 0; i < 11; i++)
		parts[i] = (struct iovec){data, i + 1};
	for (int i = 0; i < count; i++) {
		check(write(fd, data, 7), 7);
		check(pwrite(fd, data, 11, 0), 11);
		check(writev(fd, parts, 2), 3);
		/* This has more parts than are read in one go: 1 + 2 + ... + 11. */
		check(pwritev(fd, parts, 11, 0), 66);
		check(syscall(SYS_pwritev2, fd, parts, 3, 0, 0, 0), 6);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads, processes;

	if (argc != 5)
		return 2;
	count = atoi(argv[1]);
	threads = atoi(argv[2]);
	processes = atoi(argv[3]);
	fd = open(argv[4], O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		return 1;
	for (int p = 0; p < processes; p++) {
		pthread_t ids[threads];

		if (fork())
			continue;
		for (int t = 0; t < threads; t++)
			pthread_create(&ids[t], NULL, calls, NULL);
		for (int t = 0; t < threads; t++)
			pthread_join(ids[t], NULL);
		_exit(0);
	}
	for (int p = 0; p < processes; p++) {
		int status;

		wait(&status);
		if (status)
			return 1;
	}
	return 0;
}
