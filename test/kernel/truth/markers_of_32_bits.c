/*
 * Writes marker lines with the 32-bit system call write, as 32-bit programs do. FOLDER: then a shell, a 64-bit program,
 * writes to a file that is named after whom it works for by then.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NR32_WRITE 4

static long write32(int fd, const void *text, long size)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "0"(NR32_WRITE), "b"(fd), "c"(text), "d"(size) : "memory");
	return result;
}

static int write_as(const char *folder, const char *name)
{
	char command[512];

	snprintf(command, sizeof(command), "echo written > %s/%s", folder, name);
	return system(command);
}

int main(int argc, char **argv)
{
	/* Below 4 GiB, as the arguments of a 32-bit call have to be. */
	char *text =
	    mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	int null = open("/dev/null", O_WRONLY);

	if (argc != 2 || text == MAP_FAILED || null < 0)
		return 1;
	write_as(argv[1], "before");
	strcpy(text, "KREPLAY1 txn=other");
	if (write32(null, text, strlen(text)) < 0)
		return 1;
	write_as(argv[1], "other");
	strcpy(text, "KREPLAY1 end");
	write32(null, text, strlen(text));
	write_as(argv[1], "nobody");
	return 0;
}
