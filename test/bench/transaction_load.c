/*
 * The load of a busy service: processes and threads that carry out labelled transactions of about a hundred writes of
 * many sizes, to /dev/null and to files. Makes exactly EVENTS writes that are recorded (a marker line is not), RATE per
 * second over all threads (0: as fast as one CPU can), and prints one line of JSON with what was made.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 2
#define THREADS 4
#define WORKERS (PROCESSES * THREADS)

#define FILES 4
#define WRITE_SIZE_MAX 4096
#define PARTS_MAX 3
/* Files stay small, since every transaction begins at their start. */
#define FILE_BLOCKS 100
#define TRANSACTION_WRITES_MIN 60
#define TRANSACTION_WRITES_SPREAD 81
/* Between two transactions are 0 to 7 writes without an owner. */
#define PAUSE_WRITES_SPREAD 8

/* Period of a thread's bursts; the bursts of the threads are spread over it. */
#define BURST_NS 1000000
/* Time until every thread is ready. */
#define START_AFTER_NS 50000000

struct worker {
	long events, labelled, transactions, markers;
	uint64_t random;
	int64_t end_ns;
	int number, null_fd;
	int files[FILES];
	pid_t pid;
};

struct load {
	const char *folder;
	/* Rate of one thread. */
	double events_per_ns;
	int64_t start_ns;
};

/* Shared with the processes. */
static struct worker *workers;
static struct load load;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_until(int64_t time_ns)
{
	struct timespec until = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* xorshift64*: the high half is of good quality. */
static uint32_t next_random(struct worker *worker)
{
	worker->random ^= worker->random >> 12;
	worker->random ^= worker->random << 25;
	worker->random ^= worker->random >> 27;
	return (worker->random * 0x2545f4914f6cdd1dULL) >> 32;
}

static void write_marker(struct worker *worker, const char *line, int size)
{
	worker->markers++;
	if (write(worker->null_fd, line, size) != size)
		err(1, "/dev/null");
}

static void begin_transaction(struct worker *worker)
{
	char line[128];
	int size;

	size = snprintf(line, sizeof(line), "KREPLAY1 txn=order-%d-%d-%ld trace=%08x%08x%08x%08x span=%08x%08x\n",
			getpid(), worker->number, worker->transactions++, next_random(worker), next_random(worker),
			next_random(worker), next_random(worker) | 1, next_random(worker), next_random(worker) | 1);
	write_marker(worker, line, size);
	for (int i = 0; i < FILES; i++)
		lseek(worker->files[i], 0, SEEK_SET);
}

static void end_transaction(struct worker *worker)
{
	static const char line[] = "KREPLAY1 end\n";

	write_marker(worker, line, sizeof(line) - 1);
}

static size_t size_of_write(uint32_t random)
{
	size_t least = 64 << (random & 7) % 6;

	return least + (random >> 3) % least;
}

static void write_something(struct worker *worker)
{
	static const char text[WRITE_SIZE_MAX];
	struct iovec parts[PARTS_MAX];
	uint32_t random = next_random(worker);
	size_t size = size_of_write(random >> 12);
	int file = worker->files[random & (FILES - 1)];
	int fd = random & 0x10 ? worker->null_fd : file;
	int kind = (random >> 5) & 15;
	ssize_t written;

	if (kind < 10) {
		written = write(fd, text, size);
	} else if (kind < 13) {
		written = pwrite(file, text, size, (random >> 9) % FILE_BLOCKS * WRITE_SIZE_MAX);
	} else {
		size_t part = size / PARTS_MAX;

		for (int i = 0; i < PARTS_MAX; i++)
			parts[i] = (struct iovec){.iov_base = (void *)text, .iov_len = part};
		size = part * PARTS_MAX;
		written = writev(fd, parts, PARTS_MAX);
	}
	if (written != (ssize_t)size)
		err(1, "write");
}

/* The transaction's writes are counted down to 0 first, then those of the pause after it. */
static void make_events(struct worker *worker, long count, int *left, int *pause)
{
	while (count-- > 0) {
		if (*left == 0 && *pause == 0) {
			begin_transaction(worker);
			*left = TRANSACTION_WRITES_MIN + next_random(worker) % TRANSACTION_WRITES_SPREAD;
			*pause = next_random(worker) % PAUSE_WRITES_SPREAD;
		}
		write_something(worker);
		if (*left == 0) {
			--*pause;
		} else {
			worker->labelled++;
			if (--*left == 0)
				end_transaction(worker);
		}
	}
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	int64_t start_ns = load.start_ns + (int64_t)worker->number * BURST_NS / WORKERS;
	int left = 0, pause = 0;
	long done = 0;

	for (int64_t burst = 1; done < worker->events; burst++) {
		long due = worker->events;

		/* Due times are relative to the start, so that a late burst is made up for. */
		sleep_until(start_ns + (burst - 1) * BURST_NS);
		if (load.events_per_ns > 0 && burst * BURST_NS * load.events_per_ns < due)
			due = burst * BURST_NS * load.events_per_ns;
		make_events(worker, due - done, &left, &pause);
		done = due;
	}
	worker->end_ns = now_ns();
	return NULL;
}

static void open_files(struct worker *worker)
{
	char path[4096];

	worker->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (worker->null_fd < 0)
		err(1, "/dev/null");
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%d.log", load.folder, i);
		worker->files[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (worker->files[i] < 0)
			err(1, "%s", path);
	}
}

static void run_process(struct worker *own)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		own[i].pid = getpid();
		open_files(&own[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, work, &own[i]))
			errx(1, "no thread");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

static void start_processes(long events, double rate)
{
	workers = mmap(NULL, sizeof(*workers) * WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (workers == MAP_FAILED)
		err(1, "mmap");
	for (int i = 0; i < WORKERS; i++) {
		workers[i].number = i;
		workers[i].random = 0x9e3779b97f4a7c15ULL * (i + 1);
		workers[i].events = events / WORKERS + (i < events % WORKERS);
	}
	load.events_per_ns = rate / 1e9 / WORKERS;
	load.start_ns = now_ns() + START_AFTER_NS;
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid == 0)
			run_process(&workers[i * THREADS]);
	}
}

static void wait_for_processes(void)
{
	int status;

	for (int i = 0; i < PROCESSES; i++) {
		if (wait(&status) < 0)
			err(1, "wait");
		if (status)
			errx(1, "a process failed");
	}
}

static double microseconds(struct timeval time)
{
	return time.tv_sec * 1e6 + time.tv_usec;
}

static void print_result(void)
{
	long events = 0, labelled = 0, transactions = 0, markers = 0;
	struct rusage usage;
	int64_t end_ns = 0;

	printf("{\"pids\": [");
	for (int i = 0; i < WORKERS; i++) {
		events += workers[i].events;
		labelled += workers[i].labelled;
		transactions += workers[i].transactions;
		markers += workers[i].markers;
		if (workers[i].end_ns > end_ns)
			end_ns = workers[i].end_ns;
		if (i % THREADS == 0)
			printf("%s%d", i ? ", " : "", workers[i].pid);
	}
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("], \"events\": %ld, \"labelled\": %ld, \"transactions\": %ld, \"markers\": %ld, ", events, labelled,
	       transactions, markers);
	printf("\"elapsed_ns\": %lld, ", (long long)(end_ns - load.start_ns));
	printf("\"user_ns\": %.0f, \"system_ns\": %.0f}\n", microseconds(usage.ru_utime) * 1e3,
	       microseconds(usage.ru_stime) * 1e3);
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;

	if (argc != 5)
		errx(2, "usage: transaction_load CPU FOLDER EVENTS RATE");
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[1]);
	load.folder = argv[2];
	start_processes(atol(argv[3]), atof(argv[4]));
	wait_for_processes();
	print_result();
	return 0;
}
