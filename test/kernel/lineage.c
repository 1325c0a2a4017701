/*
 * Executes the steps in its arguments. The first argument is a file to write to, and the others are
 *
 *   mark TEXT       write "KREPLAY1 TEXT" to /dev/null
 *   say N           write N bytes to the file
 *   post K, wait K  signal event K, wait for it
 *   fork { ... }    a child does what is in the braces; likewise with vfork, spawn (posix_spawn) and thread
 *   exec { ... }    the next program of this process does what is in the braces
 *   join            wait for the threads and children that this thread has started; implied at the end of braces
 *   number N        the next child or thread gets this pid, which has to be free
 *   set NAME=VALUE  set a variable of the environment
 *   live N          sleep for N milliseconds
 *   setsid          begin a new session
 *   leave, die      end this thread, this process
 *   orphaned        wait until the process that was started first has ended
 *   alone           wait until the thread that left has ended
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define POSTS 4
#define WORDS_MAX 1024
#define THREADS_MAX 8
#define NUMBER_TRIES_MAX 300
/* These descriptors are the same in every program. */
#define OUT_FD 30
#define FIRST_READ_FD 31
/* Only the process that was started first has this one: when it ends, the other end reads the end of the file. */
#define FIRST_WRITE_FD 32
#define POST_FD 33

extern char **environ;

struct words {
	char **words;
	int count;
};

struct crew {
	pthread_t threads[THREADS_MAX];
	int thread_count;
	/* Pid of the next child or thread; 0: any. */
	int number;
};

struct job {
	struct words words;
	int number;
	sem_t begun;
	int refused;
};

static const char *out_path;
static volatile int left_tid;

static void run(struct words words);

static void must(int condition, const char *what)
{
	if (condition)
		return;
	perror(what);
	_exit(1);
}

static void say(int size)
{
	char text[4096];

	memset(text, '.', sizeof(text));
	must(write(OUT_FD, text, size) == size, "say");
}

static void mark(const char *text)
{
	char line[1024];
	int size = snprintf(line, sizeof(line), "KREPLAY1 %s\n", text);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	must(write(null, line, size) == size, "mark");
	close(null);
}

/* The next task gets the pid after ns_last_pid, unless another process is faster. */
static void ask_for_number(int number)
{
	int last = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);

	if (number)
		must(dprintf(last, "%d", number - 1) > 0, "ns_last_pid");
	close(last);
}

static void *do_job(void *started)
{
	struct job *job = started;
	struct words words = job->words;

	job->refused = job->number && job->number != gettid();
	if (job->refused) {
		sem_post(&job->begun);
		return NULL;
	}
	sem_post(&job->begun);
	run(words);
	return NULL;
}

static void start_thread(struct crew *crew, struct words words)
{
	for (int tries = 0;; tries++) {
		struct job job = {.words = words, .number = crew->number};
		pthread_t thread;

		must(tries < NUMBER_TRIES_MAX && crew->thread_count < THREADS_MAX, "number");
		sem_init(&job.begun, 0, 0);
		ask_for_number(crew->number);
		must(!pthread_create(&thread, NULL, do_job, &job), "thread");
		sem_wait(&job.begun);
		if (!job.refused) {
			crew->threads[crew->thread_count++] = thread;
			break;
		}
		pthread_join(thread, NULL);
	}
	crew->number = 0;
}

static void join(struct crew *crew)
{
	int status;

	while (crew->thread_count > 0)
		pthread_join(crew->threads[--crew->thread_count], NULL);
	while (wait(&status) > 0)
		must(status == 0, "child");
}

static void start_child(struct crew *crew, struct words words)
{
	for (int tries = 0;; tries++) {
		pid_t child;

		must(tries < NUMBER_TRIES_MAX, "number");
		ask_for_number(crew->number);
		child = fork();
		must(child >= 0, "fork");
		if (!child)
			break;
		if (!crew->number || child == crew->number) {
			crew->number = 0;
			return;
		}
		waitpid(child, NULL, 0);
	}
	if (crew->number && crew->number != getpid())
		_exit(0);
	close(FIRST_WRITE_FD);
	run(words);
	_exit(0);
}

/* The caller is suspended until the child has ended. */
static __attribute__((noinline)) void start_vforked(struct words words)
{
	pid_t child = vfork();

	must(child >= 0, "vfork");
	if (child)
		return;
	run(words);
	_exit(0);
}

static void argv_of(struct words words, char **argv)
{
	must(words.count < WORDS_MAX, "words");
	argv[0] = "lineage";
	argv[1] = (char *)out_path;
	memcpy(argv + 2, words.words, words.count * sizeof(*argv));
	argv[words.count + 2] = NULL;
}

static void spawn(struct words words)
{
	char *argv[WORDS_MAX + 3];

	argv_of(words, argv);
	must(!posix_spawn(&(pid_t){0}, "/proc/thread-self/exe", NULL, NULL, argv, environ), "spawn");
}

static void exec(struct words words)
{
	char *argv[WORDS_MAX + 3];

	argv_of(words, argv);
	execv("/proc/thread-self/exe", argv);
	must(0, "exec");
}

static void wait_for_left_thread(void)
{
	char path[64], state = 0;

	while (!left_tid)
		usleep(500);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", left_tid);
	while (state != 'Z' && state != 'X') {
		FILE *stat = fopen(path, "re");

		if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
			state = 'X';
		if (stat)
			fclose(stat);
		usleep(500);
	}
}

static void start(struct crew *crew, const char *how, struct words words)
{
	if (!strcmp(how, "thread"))
		start_thread(crew, words);
	else if (!strcmp(how, "fork"))
		start_child(crew, words);
	else if (!strcmp(how, "vfork"))
		start_vforked(words);
	else if (!strcmp(how, "spawn"))
		spawn(words);
	else if (!strcmp(how, "exec"))
		exec(words);
	else
		must(0, how);
}

static void step(struct crew *crew, const char *word)
{
	char byte;

	if (!strcmp(word, "join"))
		join(crew);
	else if (!strcmp(word, "setsid"))
		must(setsid() > 0, word);
	else if (!strcmp(word, "orphaned"))
		must(read(FIRST_READ_FD, &byte, 1) == 0, word);
	else if (!strcmp(word, "alone"))
		wait_for_left_thread();
	else if (!strcmp(word, "die"))
		_exit(0);
	else if (!strcmp(word, "leave")) {
		left_tid = gettid();
		pthread_exit(NULL);
	} else
		must(0, word);
}

/* Returns 0 if the word is not a step with an argument. */
static int step_with(struct crew *crew, const char *word, char *argument)
{
	uint64_t count = 1;

	if (!strcmp(word, "mark"))
		mark(argument);
	else if (!strcmp(word, "say"))
		say(atoi(argument));
	else if (!strcmp(word, "post"))
		must(write(POST_FD + atoi(argument), &count, sizeof(count)) == sizeof(count), word);
	else if (!strcmp(word, "wait"))
		must(read(POST_FD + atoi(argument), &count, sizeof(count)) == sizeof(count), word);
	else if (!strcmp(word, "number"))
		crew->number = atoi(argument);
	else if (!strcmp(word, "live"))
		usleep(atoi(argument) * 1000);
	else if (!strcmp(word, "set"))
		must(!putenv(argument), word);
	else
		return 0;
	return 1;
}

/* Returns the words between the first one, which is a brace, and the brace that closes it. */
static struct words between_braces(struct words words)
{
	int depth = 1, end = 1;

	for (; depth > 0; end++) {
		must(end < words.count, "braces");
		depth += !strcmp(words.words[end], "{") - !strcmp(words.words[end], "}");
	}
	return (struct words){words.words + 1, end - 2};
}

static void run(struct words words)
{
	struct crew crew = {0};

	for (int at = 0; at < words.count;) {
		char *word = words.words[at++];
		char *next = at < words.count ? words.words[at] : "";

		if (!strcmp(next, "{")) {
			struct words inner = between_braces((struct words){words.words + at, words.count - at});

			start(&crew, word, inner);
			at += inner.count + 2;
		} else if (step_with(&crew, word, next))
			at++;
		else
			step(&crew, word);
	}
	join(&crew);
}

static void open_descriptors(void)
{
	int ends[2], out = open(out_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

	must(out >= 0 && dup2(out, OUT_FD) == OUT_FD && !close(out), out_path);
	/* After an exec they are still open, and are those of the program before. */
	if (fcntl(FIRST_READ_FD, F_GETFD) >= 0)
		return;
	must(!pipe(ends) && dup2(ends[0], FIRST_READ_FD) >= 0, "pipe");
	must(dup3(ends[1], FIRST_WRITE_FD, O_CLOEXEC) >= 0 && !close(ends[0]) && !close(ends[1]), "pipe");
	for (int i = 0; i < POSTS; i++) {
		int post = eventfd(0, EFD_SEMAPHORE);

		must(dup2(post, POST_FD + i) >= 0 && !close(post), "eventfd");
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	out_path = argv[1];
	open_descriptors();
	run((struct words){argv + 2, argc - 2});
	return 0;
}
