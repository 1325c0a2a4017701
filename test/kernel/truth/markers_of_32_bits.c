/*
 * Writes marker lines with 32-bit system calls, as 32-bit programs do. With the argument FOLDER, a shell, which is a
 * 64-bit program, writes after each of them to a file that is named after the expected owner. Without an argument it
 * only makes a 32-bit call.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NR32_GETPID 20

/* The pointers of a 32-bit call have to be below 4 GiB. */
struct low_memory {
	char text[256];
	struct {
		uint32_t base, size;
	} vector;
};

static const struct {
	const char *name;
	int number;
	int is_vector;
} calls[] = {
    {"write", 4, 0}, {"writev", 146, 1}, {"pwrite64", 181, 0}, {"pwritev", 334, 1}, {"pwritev2", 379, 1},
};

/* The sixth argument, pwritev2's flags, is passed in the frame pointer. */
static long call32(int number, int fd, const void *what, long size)
{
	register long flags __asm__("r12") = 0;
	long result;

	__asm__ volatile("xchg %%r12, %%rbp\n\tint $0x80\n\txchg %%r12, %%rbp"
			 : "=a"(result), "+r"(flags)
			 : "0"(number), "b"(fd), "c"(what), "d"(size), "S"(0), "D"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return result;
}

static int write_as(const char *folder, const char *name)
{
	char command[512];

	snprintf(command, sizeof(command), "echo written > %s/%s", folder, name);
	return system(command);
}

static int mark(struct low_memory *low, int number, int is_vector, int null)
{
	long size = strlen(low->text);

	low->vector.base = (uintptr_t)low->text;
	low->vector.size = size;
	return (is_vector ? call32(number, null, &low->vector, 1) : call32(number, null, low->text, size)) == size;
}

int main(int argc, char **argv)
{
	struct low_memory *low =
	    mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	int null = open("/dev/null", O_WRONLY);
	char name[64];

	if (argc > 2 || low == MAP_FAILED || null < 0)
		return 1;
	if (argc == 1)
		return call32(NR32_GETPID, 0, NULL, 0) <= 0;
	write_as(argv[1], "before");
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		snprintf(low->text, sizeof(low->text), "KREPLAY1 txn=%s", calls[i].name);
		if (!mark(low, calls[i].number, calls[i].is_vector, null))
			return 2;
		write_as(argv[1], calls[i].name);
		strcpy(low->text, "KREPLAY1 end");
		if (!mark(low, calls[i].number, calls[i].is_vector, null))
			return 3;
		snprintf(name, sizeof(name), "after-%s", calls[i].name);
		write_as(argv[1], name);
	}
	return 0;
}
