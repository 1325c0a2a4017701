/* Threads that write, with markers before and after they begin. The size of each write identifies it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int out;
static pthread_barrier_t turn;

static void say(int size)
{
	char text[256];

	memset(text, '.', sizeof(text));
	if (write(out, text, size) != size)
		_exit(1);
}

static void mark(const char *line)
{
	int null = open("/dev/null", O_WRONLY);

	dprintf(null, "KREPLAY1 %s\n", line);
	close(null);
}

static void *default_reader(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&turn);
	say(101);
	mark("txn=own");
	say(102);
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	mark("end");
	say(104);
	return NULL;
}

static void process_default(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, default_reader, NULL);
	mark("proc txn=whole");
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	if (!fork()) {
		say(103);
		_exit(0);
	}
	wait(NULL);
	mark("proc end");
	pthread_barrier_wait(&turn);
	pthread_join(thread, NULL);
}

static void *pool_thread(void *unused)
{
	(void)unused;
	say(201);
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	say(202);
	mark("txn=pooled");
	say(203);
	return NULL;
}

static void *second_thread(void *unused)
{
	(void)unused;
	say(204);
	return NULL;
}

static void pool(void)
{
	pthread_t thread, second;

	mark("txn=first");
	pthread_create(&thread, NULL, pool_thread, NULL);
	pthread_barrier_wait(&turn);
	mark("txn=second");
	pthread_create(&second, NULL, second_thread, NULL);
	pthread_join(second, NULL);
	pthread_barrier_wait(&turn);
	pthread_join(thread, NULL);
}

static int pipe_ends[2];

static void *blocked_writer(void *unused)
{
	static char text[8192];

	(void)unused;
	/* The pipe is full: this call waits for a reader. */
	if (write(pipe_ends[1], text, sizeof(text)) != sizeof(text))
		_exit(1);
	return NULL;
}

static void blocked(void)
{
	static char text[65536 + 8192];
	pthread_t thread;

	if (pipe(pipe_ends) || write(pipe_ends[1], text, 65536) != 65536)
		_exit(1);
	mark("proc txn=before");
	pthread_create(&thread, NULL, blocked_writer, NULL);
	usleep(100000);
	mark("proc txn=behind");
	for (size_t left = sizeof(text); left > 0;) {
		ssize_t got = read(pipe_ends[0], text, left);

		if (got <= 0)
			_exit(1);
		left -= got;
	}
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	out = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
	pthread_barrier_init(&turn, NULL, 2);
	if (!strcmp(argv[1], "pool"))
		pool();
	else if (!strcmp(argv[1], "blocked"))
		blocked();
	else
		process_default();
	return 0;
}
