/*
 * A load that defines more than an agent reads: writes one byte to each of many new files far down in a tree, with 200
 * variables in its environment, and then repeats the write to one of them. Prints one line of JSON.
 *
 *   overload_load CPU FOLDER FILES WRITES
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 25
#define VARIABLES 200
#define BATCH 1000

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* The environment that the program was started with is what counts, so it starts itself again. */
static void start_again(char **argv)
{
	char name[32];

	if (getenv("VARIABLE_0"))
		return;
	for (int i = 0; i < VARIABLES; i++) {
		snprintf(name, sizeof(name), "VARIABLE_%d", i);
		setenv(name, "the value of a variable, as they are in a container", 1);
	}
	execv("/proc/self/exe", argv);
	err(1, "exec");
}

static void go_down(const char *folder)
{
	if (chdir(folder))
		err(1, "%s", folder);
	for (int i = 0; i < DEPTH; i++)
		if ((mkdir("directory", 0700) && access("directory", X_OK)) || chdir("directory"))
			err(1, "directory");
}

static int open_file(int number)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "file-%d", number);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		err(1, "%s", name);
	return fd;
}

static double write_ns(int fd)
{
	double begun = now_ns();

	if (pwrite(fd, "x", 1, 0) != 1)
		err(1, "pwrite");
	return now_ns() - begun;
}

static int ascending(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

int main(int argc, char **argv)
{
	int files, writes, fd = -1;
	double *new_ns, *batch_ns;
	cpu_set_t cpus;

	if (argc != 5)
		errx(2, "usage: overload_load CPU FOLDER FILES WRITES");
	start_again(argv);
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[1]);
	files = atoi(argv[3]);
	writes = atoi(argv[4]) / BATCH;
	new_ns = calloc(files, sizeof(*new_ns));
	batch_ns = calloc(writes, sizeof(*batch_ns));
	if (!new_ns || !batch_ns)
		err(1, "memory");
	go_down(argv[2]);
	for (int i = 0; i < files; i++) {
		if (fd >= 0)
			close(fd);
		fd = open_file(i);
		new_ns[i] = write_ns(fd);
	}
	for (int i = 0; i < writes; i++) {
		double begun = now_ns();

		for (int at = 0; at < BATCH; at++)
			if (pwrite(fd, "x", 1, 0) != 1)
				err(1, "pwrite");
		batch_ns[i] = (now_ns() - begun) / BATCH;
	}
	qsort(new_ns, files, sizeof(*new_ns), ascending);
	qsort(batch_ns, writes, sizeof(*batch_ns), ascending);
	printf("{\"new_file_ns\":%.0f,\"same_file_ns\":%.0f}\n", new_ns[files / 2], batch_ns[writes / 2]);
}
