/*
 * The load: repeats one call as fast as one CPU can make it. Prints one line of JSON.
 *
 *   call_load CALL CPU SECONDS FOLDER     # FOLDER: for a file of its own
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WRITE_SIZE 64
#define READ_SIZE 512
#define PAGE_SIZE 4096
#define PAGES 1000
/* Well under a timer tick: most batches then contain no interrupt, and the median none. */
#define BATCH_CALLS 1000
#define BATCHES_MAX 1000000
/* Pause after a batch that defines a context with each call: an agent reads some 100,000 contexts a second. */
#define BREATH_US 20000

static int fd = -1;
static char *pages;
static const char *folder;
/* sys_write events of this process besides the timed ones. */
static int untimed_writes = 1;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void open_dev_null(void)
{
	fd = open("/dev/null", O_WRONLY);
	if (fd < 0)
		err(1, "/dev/null");
}

static void label_thread(void)
{
	static const char marker[] = "KREPLAY1 txn=bench trace=4bf92f3577b34da6a3ce929d0e0e4736\n";

	open_dev_null();
	if (write(fd, marker, sizeof(marker) - 1) < 0)
		err(1, "marker");
	untimed_writes++;
}

static void write_once(int call)
{
	static const char text[WRITE_SIZE];

	(void)call;
	if (write(fd, text, WRITE_SIZE) != WRITE_SIZE)
		err(1, "write");
}

static void get_parent(int call)
{
	(void)call;
	getppid();
}

/* Makes a socket from which the same bytes can be read forever, with MSG_PEEK. */
static void fill_socket(const char *text)
{
	int pair[2];
	char message[READ_SIZE];

	memset(message, 'x', sizeof(message));
	memcpy(message, text, strlen(text));
	memcpy(message + READ_SIZE - 4, "\r\n\r\n", 4);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || send(pair[0], message, READ_SIZE, 0) != READ_SIZE)
		err(1, "socket");
	fd = pair[1];
}

static void fill_with_text(void)
{
	fill_socket("x");
}

static void fill_with_request(void)
{
	char request[READ_SIZE] = "GET / HTTP/1.1\r\nHost: a\r\nCookie: ";
	static const char parent[] = "\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
	size_t at = strlen(request);

	memset(request + at, 'c', READ_SIZE - at - sizeof(parent) - 4);
	strcat(request, parent);
	fill_socket(request);
}

static void read_once(int call)
{
	static char text[READ_SIZE];

	(void)call;
	if (recv(fd, text, READ_SIZE, MSG_PEEK) != READ_SIZE)
		err(1, "recv");
}

/* Sends no bytes, but the kernel side still sees a call that answers a request. */
static void serve_once(int call)
{
	read_once(call);
	if (send(fd, "", 0, 0))
		err(1, "send");
}

static void breathe(void)
{
	usleep(BREATH_US);
}

static void map_file(void)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/pages", folder);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || posix_fallocate(fd, 0, PAGES * PAGE_SIZE))
		err(1, "%s", path);
	pages = mmap(NULL, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pages == MAP_FAILED)
		err(1, "mmap");
}

static void dirty_page(int call)
{
	pages[(size_t)call * PAGE_SIZE]++;
}

static void clean_pages(void)
{
	if (msync(pages, PAGES * PAGE_SIZE, MS_SYNC))
		err(1, "msync");
}

static void run_program(int call)
{
	static char *const arguments[] = {"true", NULL};
	pid_t pid;

	(void)call;
	if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, NULL) || waitpid(pid, NULL, 0) != pid)
		err(1, "true");
}

struct call {
	const char *name;
	void (*prepare)(void);
	void (*once)(int call);
	void (*behind_batch)(void);
	int batch;
};

static const struct call CALLS[] = {
    {"write", open_dev_null, write_once, NULL, BATCH_CALLS},
    {"labelled_write", label_thread, write_once, NULL, BATCH_CALLS},
    {"getppid", NULL, get_parent, NULL, BATCH_CALLS},
    {"read", fill_with_text, read_once, NULL, BATCH_CALLS},
    {"serve", fill_with_text, serve_once, NULL, BATCH_CALLS},
    {"serve_request", fill_with_request, serve_once, breathe, BATCH_CALLS},
    {"dirty_page", map_file, dirty_page, clean_pages, PAGES},
    {"exec", NULL, run_program, NULL, 20},
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static const struct call *call_named(const char *name)
{
	for (size_t i = 0; i < sizeof(CALLS) / sizeof(*CALLS); i++)
		if (!strcmp(CALLS[i].name, name))
			return &CALLS[i];
	errx(2, "no call %s", name);
}

int main(int argc, char **argv)
{
	static double batch_ns[BATCHES_MAX];
	const struct call *call;
	double start_ns, user_ns;
	struct rusage usage;
	cpu_set_t cpus;
	int batches = 0;

	if (argc != 5)
		errx(2, "usage: call_load CALL CPU SECONDS FOLDER");
	call = call_named(argv[1]);
	folder = argv[4];
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[2]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[2]);
	if (call->prepare)
		call->prepare();

	start_ns = now_ns();
	while (now_ns() - start_ns < atof(argv[3]) * 1e9 && batches < BATCHES_MAX) {
		double batch_start_ns = now_ns();

		for (int i = 0; i < call->batch; i++)
			call->once(i);
		batch_ns[batches++] = now_ns() - batch_start_ns;
		if (call->behind_batch)
			call->behind_batch();
	}

	qsort(batch_ns, batches, sizeof(*batch_ns), compare);
	getrusage(RUSAGE_SELF, &usage);
	user_ns = usage.ru_utime.tv_sec * 1e9 + usage.ru_utime.tv_usec * 1e3;
	/* This line is a write of this process too; it is counted, since recorded and made writes must be equal. */
	printf("{\"pid\": %d, \"calls\": %d, \"untimed_writes\": %d, \"median_ns\": %.1f, \"fastest_ns\": %.1f, "
	       "\"user_ns\": %.0f}\n",
	       getpid(), batches * call->batch, untimed_writes, batches ? batch_ns[batches / 2] / call->batch : 0,
	       batch_ns[0] / call->batch, user_ns);
	return 0;
}
