/*
 * Makes one descriptor number stand for two files, each in a process of the same name:
 *
 *   reused   a thread of one process ends, and its id comes back as that of a thread of another process
 *   own      a thread has its own table of files
 *
 * Writes and syncs `mine` through the number after `others`. Needs a PID namespace without other processes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_FD 100
#define TID 4000
#define CALLS 4

static const char *text;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void open_as(const char *path)
{
	const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);

	if (file < 0 || dup2(file, FILE_FD) < 0)
		fail(path);
	close(file);
}

static void write_and_sync(void)
{
	for (int i = 0; i < CALLS; i++)
		if (write(FILE_FD, text, strlen(text)) < 0 || fsync(FILE_FD) < 0)
			fail("write");
}

static void *work(void *argument)
{
	(void)argument;
	if (gettid() != TID)
		fail("the thread has another number");
	write_and_sync();
	return NULL;
}

static void *work_with_own_files(void *path)
{
	if (unshare(CLONE_FILES) < 0)
		fail("unshare");
	open_as(path);
	write_and_sync();
	return NULL;
}

static void run_thread(void *(*work)(void *), const char *path)
{
	pthread_t thread;
	int failed;

	/* Sets the next thread id, in this namespace only. */
	FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "w");
	if (!last || fprintf(last, "%d", TID - 1) < 0 || fclose(last) != 0)
		fail("ns_last_pid");
	failed = pthread_create(&thread, NULL, work, (void *)path);
	if (failed || pthread_join(thread, NULL))
		fail("thread");
}

int main(int words, char **word)
{
	if (words != 4)
		return 2;
	const char *others = word[2], *mine = word[3];
	if (strcmp(word[1], "own") == 0) {
		open_as(others);
		text = "mine";
		run_thread(work_with_own_files, mine);
		return 0;
	}
	int turns[2], status;
	char turn;
	if (pipe(turns) < 0)
		fail("pipe");
	const pid_t other = fork();
	if (other == 0) {
		open_as(others);
		text = "other";
		run_thread(work, NULL);
		/* It stays alive: a live process that the descriptor could wrongly be attributed to. */
		close(turns[0]);
		if (dup2(turns[1], STDOUT_FILENO) < 0 || write(STDOUT_FILENO, "", 1) != 1)
			fail("turn");
		pause();
	}
	if (read(turns[0], &turn, 1) != 1)
		fail("turn");
	open_as(mine);
	text = "mine";
	run_thread(work, NULL);
	kill(other, SIGKILL);
	return waitpid(other, &status, 0) == other ? 0 : 1;
}
