/*
 * A program whose threads publish their contexts in OpenTelemetry's own way. Its arguments are FOLDER, and the library
 * that has the thread-local variable, if any. It publishes a process context and waits for a line on its standard
 * input. Then each of its threads writes lines, under traces of its own: to FOLDER/TRACE while it publishes that trace,
 * to FOLDER/none while it publishes none. A build with BECOMES_NEXT executes its other arguments after that line. One
 * with PUBLISHES_NO_PROCESS has the same variable, and publishes no process context, so nothing says what it contains.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8
#define SPANS 50

struct header {
	char signature[8];
	uint32_t version;
	uint32_t payload_size;
	uint64_t published_ns;
	const char *payload;
};

struct record {
	unsigned char trace[16], span[8], valid, flags;
	uint16_t attributes_size;
	unsigned char attributes[64];
};

typedef void **thread_context_address(void);

#ifndef LOADS_LIBRARY
__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;

static void **own_context(void)
{
	return &otel_thread_ctx_v1;
}
#endif

/* Resource {service.name: "otel-shop"}; attributes {threadlocal.schema_version, threadlocal.attribute_key_map}. */
static const char payload[] =
    "\x0a\x1d\x0a\x1b\x0a\x0cservice.name\x12\x0b\x0a\x09otel-shop"
    "\x12\x2e\x0a\x1athreadlocal.schema_version\x12\x10\x0a\x0etlsdesc_v1_dev"
    "\x12\x35\x0a\x1dthreadlocal.attribute_key_map\x12\x14\x2a\x12\x0a\x10\x0a\x0etransaction.id";

static thread_context_address *address;
static const char *folder;

__attribute__((unused)) static void publish_process(void)
{
	struct header *header;
	struct timespec now;
	int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);

	if (ftruncate(fd, sizeof(*header)))
		exit(1);
	header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	clock_gettime(CLOCK_BOOTTIME, &now);
	header->version = 2;
	header->payload = payload;
	header->payload_size = sizeof(payload) - 1;
	header->published_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
	memcpy(header->signature, "OTEL_CTX", 8);
}

static void write_line(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (write(fd, "line\n", 5) != 5)
		exit(1);
	close(fd);
}

__attribute__((unused)) static void *work(void *argument)
{
	int thread = (int)(long)argument;
	void *volatile *variable = address();

	for (int span = 0; span < SPANS; span++) {
		struct record record = {.valid = 1};
		char trace[33];
		int size;

		record.trace[0] = 0xa0 + thread;
		record.trace[15] = span + 1;
		record.span[7] = span + 1;
		size = snprintf((char *)record.attributes + 2, 60, "order-%d-%d", thread, span);
		record.attributes[0] = 0;
		record.attributes[1] = (unsigned char)size;
		record.attributes_size = (uint16_t)(size + 2);
		for (int i = 0; i < 16; i++)
			sprintf(trace + 2 * i, "%02x", record.trace[i]);
		*variable = &record;
		write_line(trace);
		usleep(500);
		write_line(trace);
		record.valid = 0;
		write_line("none");
		*variable = NULL;
		write_line("none");
	}
	return NULL;
}

#ifdef SAME_NUMBER
static int number;

/* Publishes a context and leaves it in place; every other thread publishes none. */
static void *write_one(void *argument)
{
	static struct record record = {.trace = {[0] = 0xb0, [15] = 1}, .span = {[7] = 1}, .valid = 1};
	int thread = (int)(long)argument;

	if (number && number != gettid())
		return (void *)1;
	number = gettid();
	if (thread % 2 == 0)
		*(void *volatile *)address() = &record;
	write_line(thread % 2 == 0 ? "published" : "none");
	return NULL;
}

/* Runs one thread after the other, each with the tid of the first. */
static int succeed_each_other(void)
{
	for (int thread = 0, tries = 0; thread < THREADS && tries < 2000; tries++) {
		FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "w");
		pthread_t started;
		void *is_other = NULL;

		if (number)
			fprintf(last, "%d", number - 1);
		fclose(last);
		pthread_create(&started, NULL, write_one, (void *)(long)thread);
		pthread_join(started, &is_other);
		thread += !is_other;
	}
	return 0;
}
#endif

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	char line[8];

	folder = argv[1];
#ifdef LOADS_LIBRARY
	address = (thread_context_address *)dlsym(dlopen(argv[argc - 1], RTLD_NOW), "thread_context");
#else
	(void)argc;
	address = own_context;
#endif
	/* The first access binds the variable. */
	address();
#ifndef PUBLISHES_NO_PROCESS
	publish_process();
#endif
	write_line("started");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
#ifdef BECOMES_NEXT
	execv(argv[2], argv + 2);
	return 1;
#endif
#ifdef SAME_NUMBER
	return succeed_each_other();
#endif
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
