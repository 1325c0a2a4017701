/*
 * Publishes an OpenTelemetry process context in "memfd", "named" or "both" mappings; then, by the second argument,
 *   once    waits
 *   update  changes it repeatedly, from one size to another, for a second, and ends
 *   fork    prints the pid of a child that publishes nothing, and waits
 *   break WHAT  makes one thing wrong with it, and waits
 * The n-th context consists of n % 61 + 1 attributes whose values are all "n".
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#define PAYLOAD_MAX 8192
#define BUFFERS 2
#define KEYS "\x12\x2e\x0a\x1athreadlocal.schema_version\x12\x10\x0a\x0etlsdesc_v1_dev"

struct header {
	char signature[8];
	uint32_t version;
	uint32_t payload_size;
	_Atomic uint64_t published_ns;
	char *payload;
};

static struct header *header;
static char *buffers[BUFFERS];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static size_t add_string(char *to, char tag, const char *text, size_t size)
{
	to[0] = tag;
	to[1] = (char)size;
	memcpy(to + 2, text, size);
	return size + 2;
}

/* All lengths fit into one byte, except that of the resource. */
static size_t encode(char *to, unsigned int n)
{
	char attributes[PAYLOAD_MAX], value[32], any[64], pair[128], name[32];
	size_t size = 0, value_size = snprintf(value, sizeof(value), "%u", n);

	for (unsigned int i = 0; i < n % 61 + 1; i++) {
		size_t name_size = i ? (size_t)snprintf(name, sizeof(name), "attribute.%u", i)
				     : (size_t)snprintf(name, sizeof(name), "service.name");
		size_t pair_size = add_string(pair, 0x0a, name, name_size);
		size_t any_size = add_string(any, 0x0a, value, value_size);

		pair_size += add_string(pair + pair_size, 0x12, any, any_size);
		size += add_string(attributes + size, 0x0a, pair, pair_size);
	}
	to[0] = 0x0a;
	to[1] = (char)(size | 0x80);
	to[2] = (char)(size >> 7);
	memcpy(to + 3, attributes, size);
	memcpy(to + 3 + size, KEYS, sizeof(KEYS) - 1);
	return 3 + size + sizeof(KEYS) - 1;
}

static int publish(const char *how)
{
	int fd = strcmp(how, "named") ? memfd_create("OTEL_CTX", MFD_CLOEXEC) : -1;
	int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);

	if (fd >= 0 && ftruncate(fd, sizeof(*header)))
		return 1;
	header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, flags, fd, 0);
	close(fd);
	if (header == MAP_FAILED || madvise(header, sizeof(*header), MADV_DONTFORK))
		return 1;
	for (int i = 0; i < BUFFERS; i++)
		buffers[i] = malloc(PAYLOAD_MAX);
	header->version = 2;
	header->payload = buffers[0];
	header->payload_size = encode(buffers[0], 0);
	header->published_ns = now_ns();
	atomic_thread_fence(memory_order_seq_cst);
	memcpy(header->signature, "OTEL_CTX", 8);
	/* Kernels without CONFIG_ANON_VMA_NAME refuse it. */
	if (strcmp(how, "memfd") && prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, header, sizeof(*header), "OTEL_CTX"))
		return strcmp(how, "named") ? 0 : 3;
	return 0;
}

/* Overwrites the payload before last at once, so that a late reader finds another payload or garbage. */
static void update(unsigned int n)
{
	char *next = buffers[n % BUFFERS];

	header->published_ns = 0;
	atomic_thread_fence(memory_order_seq_cst);
	memset(buffers[(n + 1) % BUFFERS], 0xff, PAYLOAD_MAX);
	header->payload_size = encode(next, n);
	header->payload = next;
	atomic_thread_fence(memory_order_seq_cst);
	header->published_ns = now_ns();
}

static void spoil(const char *what)
{
	if (!strcmp(what, "signature"))
		header->signature[7] = 'x';
	else if (!strcmp(what, "version"))
		header->version = 1;
	else if (!strcmp(what, "time"))
		header->published_ns = 0;
	else if (!strcmp(what, "size"))
		header->payload_size = 0xffffffff;
	else if (!strcmp(what, "no size"))
		header->payload_size = 0;
	else if (!strcmp(what, "pointer"))
		header->payload = (char *)0x10;
	else if (!strcmp(what, "high pointer"))
		header->payload = (char *)-64;
	else if (!strcmp(what, "payload"))
		memset(header->payload, 0xff, header->payload_size);
	else if (!strcmp(what, "protection"))
		mprotect(header, sizeof(*header), PROT_READ | PROT_EXEC);
	else
		exit(2);
}

int main(int argc, char **argv)
{
	int failed = argc < 3 ? 2 : publish(argv[1]);
	uint64_t until = now_ns() + 1000000000ull;

	if (failed)
		return failed;
	if (!strcmp(argv[2], "fork")) {
		pid_t child = fork();

		if (child)
			printf("%d\n", child);
		else
			for (;;)
				pause();
	} else if (!strcmp(argv[2], "break")) {
		spoil(argv[3]);
	}
	printf("ready\n");
	fflush(stdout);
	for (unsigned int n = 1; !strcmp(argv[2], "update") && now_ns() < until; n++) {
		update(n);
		usleep(20);
	}
	if (strcmp(argv[2], "update"))
		pause();
	return 0;
}
