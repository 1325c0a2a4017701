/*
 * A build under `kreplay run` that measures by its own clock how long its calls take. Prints one line of JSON.
 *
 *   run_load clock                            # only the time at which it started
 *   run_load write|getppid THREADS CALLS      # THREADS concurrently make this many calls together
 *   run_load write_elsewhere 1 CALLS          # each to another file than the one before, by the same descriptor
 *   run_load waits CYCLES LENGTH_NS...        # a write that is planned to take each length, and a sleep of that length
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define WRITE_SIZE 64
#define THREADS_MAX 64
/* Some 500 us of intercepted calls: most batches then contain no interrupt, and the median none. */
#define BATCH_CALLS 100
#define LENGTHS_MAX 8

struct worker {
	pthread_t thread;
	long batches;
	int64_t *batch_ns;
	int64_t start_ns, end_ns;
};

/* Errors of the waits of one length. */
struct errors {
	int64_t *ns; /* absolute values */
	int64_t earliest_ns;
	long count;
};

static int null_fd;
static void (*make_call)(void);
static pthread_barrier_t all_ready;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *room_for(long count, size_t size)
{
	void *room = calloc(count, size);

	if (!room)
		err(1, "memory");
	return room;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The least value that `share` of the sorted ones do not exceed. */
static int64_t percentile(const int64_t *sorted, long count, double share)
{
	long place = (long)(count * share + 0.999999) - 1;

	return sorted[place < 0 ? 0 : place];
}

static void write_once(void)
{
	static const char text[WRITE_SIZE];

	if (write(null_fd, text, WRITE_SIZE) != WRITE_SIZE)
		err(1, "/dev/null");
}

static void write_elsewhere(void)
{
	static int files[2], turn;

	if (files[0] == 0) {
		files[0] = dup(null_fd);
		files[1] = open("/dev/zero", O_WRONLY);
	}
	turn = !turn;
	if (dup2(files[turn], null_fd) < 0)
		err(1, "/dev/zero");
	write_once();
}

static void get_parent(void)
{
	getppid();
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	pthread_barrier_wait(&all_ready);
	worker->start_ns = worker->end_ns = now_ns();
	for (long batch = 0; batch < worker->batches; batch++) {
		int64_t from_ns = worker->end_ns;

		for (int i = 0; i < BATCH_CALLS; i++)
			make_call();
		worker->end_ns = now_ns();
		worker->batch_ns[batch] = worker->end_ns - from_ns;
	}
	return NULL;
}

static void call_at_once(int threads, long calls)
{
	static struct worker workers[THREADS_MAX];
	long batches = calls / threads / BATCH_CALLS;
	int64_t *batch_ns, first_ns = INT64_MAX, last_ns = 0;

	if (threads < 1 || threads > THREADS_MAX || batches < 1 || batches * threads * BATCH_CALLS != calls)
		errx(2, "%ld calls of %d threads: not as many batches of %d for each", calls, threads, BATCH_CALLS);
	batch_ns = room_for(batches * threads, sizeof(*batch_ns));
	pthread_barrier_init(&all_ready, NULL, threads);
	for (int i = 0; i < threads; i++) {
		workers[i].batches = batches;
		workers[i].batch_ns = batch_ns + i * batches;
		if (i > 0 && pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			errx(1, "no thread");
	}
	/* The main thread is a worker: in other threads strace 6.1 stops at every call, whatever its filter. */
	work(&workers[0]);
	for (int i = 0; i < threads; i++) {
		if (i > 0)
			pthread_join(workers[i].thread, NULL);
		if (workers[i].start_ns < first_ns)
			first_ns = workers[i].start_ns;
		if (workers[i].end_ns > last_ns)
			last_ns = workers[i].end_ns;
	}
	qsort(batch_ns, batches * threads, sizeof(*batch_ns), compare);
	printf("{\"calls\": %ld, \"median_ns\": %.1f, \"elapsed_ns\": %ld}\n", calls,
	       (double)percentile(batch_ns, batches * threads, 0.5) / BATCH_CALLS, last_ns - first_ns);
}

static void add_error(struct errors *errors, int64_t took_ns, int64_t length_ns)
{
	int64_t late_ns = took_ns - length_ns;

	if (errors->count == 0 || late_ns < errors->earliest_ns)
		errors->earliest_ns = late_ns;
	errors->ns[errors->count++] = late_ns < 0 ? -late_ns : late_ns;
}

static void sleep_for(int64_t length_ns)
{
	struct timespec length = {.tv_sec = length_ns / 1000000000, .tv_nsec = length_ns % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &length) == EINTR)
		;
}

static void print_errors(const char *name, struct errors *errors)
{
	qsort(errors->ns, errors->count, sizeof(*errors->ns), compare);
	printf("\"%s\": {\"p50\": %ld, \"p99\": %ld, \"max\": %ld, \"earliest\": %ld}", name,
	       percentile(errors->ns, errors->count, 0.5), percentile(errors->ns, errors->count, 0.99),
	       percentile(errors->ns, errors->count, 1), errors->earliest_ns);
}

static void wait_in_cycles(long cycles, int count, char **lengths)
{
	struct errors writes[LENGTHS_MAX] = {0}, sleeps[LENGTHS_MAX] = {0};

	if (cycles < 1 || count > LENGTHS_MAX)
		errx(2, "no cycles, or more than %d lengths", LENGTHS_MAX);
	/* This makes sleeps as exact as they can be: by default a sleep may be 50 us longer. */
	prctl(PR_SET_TIMERSLACK, 1);
	for (int i = 0; i < count; i++) {
		writes[i].ns = room_for(cycles, sizeof(int64_t));
		sleeps[i].ns = room_for(cycles, sizeof(int64_t));
	}
	for (long cycle = 0; cycle < cycles; cycle++) {
		for (int i = 0; i < count; i++) {
			int64_t length_ns = atoll(lengths[i]), from_ns = now_ns();

			write_once();
			add_error(&writes[i], now_ns() - from_ns, length_ns);
			from_ns = now_ns();
			sleep_for(length_ns);
			add_error(&sleeps[i], now_ns() - from_ns, length_ns);
		}
	}
	printf("[");
	for (int i = 0; i < count; i++) {
		printf("%s{\"length_ns\": %s, ", i ? ", " : "", lengths[i]);
		print_errors("write_ns", &writes[i]);
		printf(", ");
		print_errors("sleep_ns", &sleeps[i]);
		printf("}");
	}
	printf("]\n");
}

static void (*call_of(const char *name))(void)
{
	if (!strcmp(name, "write"))
		return write_once;
	if (!strcmp(name, "write_elsewhere"))
		return write_elsewhere;
	return !strcmp(name, "getppid") ? get_parent : NULL;
}

int main(int argc, char **argv)
{
	int64_t here_ns = now_ns();

	null_fd = open("/dev/null", O_WRONLY);
	if (null_fd < 0)
		err(1, "/dev/null");
	if (argc == 2 && !strcmp(argv[1], "clock")) {
		printf("%ld\n", here_ns);
	} else if (argc > 3 && !strcmp(argv[1], "waits")) {
		wait_in_cycles(atol(argv[2]), argc - 3, argv + 3);
	} else if (argc == 4 && (make_call = call_of(argv[1])) != NULL &&
		   (make_call != write_elsewhere || atoi(argv[2]) == 1)) {
		call_at_once(atoi(argv[2]), atol(argv[3]));
	} else {
		errx(2, "usage: run_load clock | write|getppid THREADS CALLS | write_elsewhere 1 CALLS | waits CYCLES "
			"LENGTH_NS...");
	}
	return 0;
}
