/*
 * COUNT FAILED SLOW: makes COUNT fast writes of 1 byte to /dev/null, and spread among them FAILED writes of 2 bytes
 * that fail and SLOW writes of 4096 bytes that take 20 ms.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE 4096
#define SLOW_US 20000

static char page[PAGE];

/* Whether the parent sleeps: then it is in the write that waits for the full pipe. */
static int parent_sleeps(void)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", getppid());
	file = fopen(path, "r");
	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		_exit(1);
	fclose(file);
	return state == 'S';
}

/* Empties the full pipe 20 ms after the parent has begun to wait for it. */
static void empty_when_told(int told, int full)
{
	char byte;

	while (read(told, &byte, 1) == 1) {
		while (!parent_sleeps())
			usleep(1000);
		usleep(SLOW_US);
		if (read(full, page, PAGE) != PAGE)
			_exit(1);
	}
	_exit(0);
}

/* Whether event number `i` of `count` is one of `some` that are spread among them. */
static int is_due(long i, long count, long some)
{
	return some && i * some / count != (i + 1) * some / count;
}

int main(int argc, char **argv)
{
	long count = atol(argv[1]), failed = atol(argv[2]), slow = atol(argv[3]);
	int null = open("/dev/null", O_WRONLY), full[2], tell[2];

	if (argc != 4 || pipe(full) || pipe(tell) || fcntl(full[1], F_SETPIPE_SZ, PAGE) != PAGE)
		return 1;
	if (fork() == 0) {
		close(tell[1]);
		empty_when_told(tell[0], full[0]);
	}
	/* Fast, and each slow write is preceded by a fast one: the program counts both among its own. */
	if (write(full[1], page, PAGE) != PAGE)
		return 1;
	for (long i = 0; i < count; i++) {
		if (write(null, page, 1) != 1)
			return 1;
		if (is_due(i, count, failed) && write(-1, page, 2) != -1)
			return 1;
		if (is_due(i, count, slow) && (write(tell[1], page, 1) != 1 || write(full[1], page, PAGE) != PAGE))
			return 1;
	}
	return 0;
}
