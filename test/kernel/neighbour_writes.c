/*
 * Queues COUNT direct 4 KiB writes to DEVICE's blocks FIRST, FIRST + 2, ... at once. Two of these programs, with FIRST
 * 0 and 1, queue neighbours, which the I/O scheduler merges into requests of both. The exit status is 1 unless every
 * block was written.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 4096
#define COUNT_MAX 4096

int main(int argc, char **argv)
{
	static struct iocb blocks[COUNT_MAX], *list[COUNT_MAX];
	static struct io_event events[COUNT_MAX];
	aio_context_t context = 0;
	int count, first, fd;
	void *data;

	if (argc != 4)
		return 2;
	first = atoi(argv[2]);
	count = atoi(argv[3]);
	fd = open(argv[1], O_WRONLY | O_DIRECT);
	if (fd < 0 || count > COUNT_MAX || posix_memalign(&data, BLOCK, BLOCK))
		return 1;
	memset(data, 1, BLOCK);
	for (int i = 0; i < count; i++) {
		blocks[i].aio_lio_opcode = IOCB_CMD_PWRITE;
		blocks[i].aio_fildes = fd;
		blocks[i].aio_buf = (unsigned long)data;
		blocks[i].aio_nbytes = BLOCK;
		blocks[i].aio_offset = (first + 2ll * i) * BLOCK;
		list[i] = &blocks[i];
	}
	/* The kernel frees the contexts of ended programs a little later: until then io_setup() may return EAGAIN. */
	while (syscall(SYS_io_setup, count, &context))
		if (errno != EAGAIN)
			return 1;
	for (int done = 0; done < count;) {
		int submitted = syscall(SYS_io_submit, context, count - done, list + done);

		if (submitted <= 0)
			return 1;
		done += submitted;
	}
	if (syscall(SYS_io_getevents, context, count, count, events, NULL) != count)
		return 1;
	for (int i = 0; i < count; i++)
		if (events[i].res != BLOCK) {
			fprintf(stderr, "a write gave %lld\n", (long long)events[i].res);
			return 1;
		}
	return 0;
}
