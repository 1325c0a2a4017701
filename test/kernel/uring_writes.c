/*
 * Writes blocks that contain their owner through io_uring: FILE HOW TRANSACTION... HOW is worker, where the kernel's
 * worker threads make all writes, or poller, where a kernel thread takes the requests from the ring. A transaction
 * called nobody is none: it ends the label before it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS 64

static struct {
	int fd;
	unsigned *submit_tail, *submit_mask, *submit_array, *complete_head, *complete_tail, *complete_mask;
	struct io_uring_sqe *requests;
	struct io_uring_cqe *completions;
} ring;

static void must(int condition, const char *what)
{
	if (condition)
		return;
	perror(what);
	exit(1);
}

static char *map_ring(size_t size, off_t offset)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, offset);

	must(at != MAP_FAILED, "mmap");
	return at;
}

static void open_ring(int by_poller)
{
	struct io_uring_params params = {.flags = by_poller ? IORING_SETUP_SQPOLL : 0, .sq_thread_idle = 10000};
	char *submit, *complete;

	ring.fd = syscall(SYS_io_uring_setup, BLOCKS, &params);
	must(ring.fd >= 0, "io_uring_setup");
	submit = map_ring(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	complete = map_ring(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	ring.requests = (void *)map_ring(params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.submit_tail = (unsigned *)(submit + params.sq_off.tail);
	ring.submit_mask = (unsigned *)(submit + params.sq_off.ring_mask);
	ring.submit_array = (unsigned *)(submit + params.sq_off.array);
	ring.complete_head = (unsigned *)(complete + params.cq_off.head);
	ring.complete_tail = (unsigned *)(complete + params.cq_off.tail);
	ring.complete_mask = (unsigned *)(complete + params.cq_off.ring_mask);
	ring.completions = (struct io_uring_cqe *)(complete + params.cq_off.cqes);
}

static void submit_write(int file, const char *block, off_t offset, int by_worker)
{
	unsigned tail = *ring.submit_tail, index = tail & *ring.submit_mask;

	ring.requests[index] = (struct io_uring_sqe){.opcode = IORING_OP_WRITE,
						     .flags = by_worker ? IOSQE_ASYNC : 0,
						     .fd = file,
						     .addr = (unsigned long)block,
						     .len = BLOCK,
						     .off = offset};
	ring.submit_array[index] = index;
	__atomic_store_n(ring.submit_tail, tail + 1, __ATOMIC_RELEASE);
}

/* Waits until this many writes are done. */
static void complete_writes(unsigned count)
{
	unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_SQ_WAKEUP, submit = count;

	while (count > 0) {
		long result = syscall(SYS_io_uring_enter, ring.fd, submit, 1, flags, NULL, 0);

		must(result >= 0, "io_uring_enter");
		submit -= (unsigned)result < submit ? result : submit;
		for (unsigned head = *ring.complete_head;
		     count > 0 && head != __atomic_load_n(ring.complete_tail, __ATOMIC_ACQUIRE); count--) {
			must(ring.completions[head & *ring.complete_mask].res == BLOCK, "write");
			__atomic_store_n(ring.complete_head, ++head, __ATOMIC_RELEASE);
		}
	}
}

static void mark(const char *transaction)
{
	int null = open("/dev/null", O_WRONLY);
	char line[256];
	int size = snprintf(line, sizeof(line), strcmp(transaction, "nobody") ? "KREPLAY1 txn=%s\n" : "KREPLAY1 end\n",
			    transaction);

	must(write(null, line, size) == size, "mark");
	close(null);
}

int main(int argc, char **argv)
{
	int file, by_poller;
	char *blocks;

	if (argc < 4)
		return 2;
	by_poller = !strcmp(argv[2], "poller");
	file = open(argv[1], O_WRONLY | O_CREAT | O_DIRECT, 0600);
	must(file >= 0, argv[1]);
	must(!posix_memalign((void **)&blocks, BLOCK, BLOCKS * BLOCK), "memory");
	mark(argv[3]);
	open_ring(by_poller);
	for (int i = 3; i < argc; i++) {
		/* The threads that work for the ring were created under the first transaction. */
		if (i > 3)
			mark(argv[i]);
		for (int block = 0; block < BLOCKS; block++) {
			char *text = blocks + block * BLOCK;

			snprintf(text, BLOCK, "<%s>", argv[i]);
			submit_write(file, text, ((i - 3) * BLOCKS + block) * BLOCK, !by_poller);
		}
		complete_writes(BLOCKS);
	}
	return 0;
}
