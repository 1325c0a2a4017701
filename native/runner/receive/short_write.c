#include "receive/short_write.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "delay/clock.h"
#include "identify/observe.h"
#include "seccomp/notify.h"

#define BYTES_MAX (16u << 20)
#define AT_POSITION (-1)

/* The arguments of a write, in a form that the whole family has in common. */
struct asked {
	uint64_t bytes;
	int64_t offset; /* AT_POSITION: at the file's position */
	int flags;
	struct iovec parts[IOV_MAX];
	size_t part_count;
};

static bool read_asked(const struct call *call, struct asked *asked)
{
	const __u64 *arguments = call->data.args;
	const unsigned op = call->record.op;
	const bool has_offset = op == OP_PWRITE64 || op == OP_PWRITEV || op == OP_PWRITEV2;

	asked->offset = has_offset ? (int64_t)arguments[3] : AT_POSITION;
	asked->flags = op == OP_PWRITEV2 ? (int)arguments[5] : 0;
	if (op == OP_WRITE || op == OP_PWRITE64) {
		asked->parts[0] = (struct iovec){(void *)arguments[1], arguments[2]};
		asked->part_count = 1;
	} else if (!observe_iovec(call->record.tid, arguments[1], arguments[2], asked->parts)) {
		return false;
	} else {
		asked->part_count = arguments[2];
	}
	asked->bytes = 0;
	for (size_t i = 0; i < asked->part_count; i++) {
		if (asked->parts[i].iov_len > SSIZE_MAX)
			return false;
		asked->bytes += asked->parts[i].iov_len;
	}
	/* Only pwritev2 may be asked to write at the file's position. */
	return asked->offset >= 0 || !has_offset || (op == OP_PWRITEV2 && asked->offset == AT_POSITION);
}

/*
 * A pipe or socket could block the runner for an unknown time, and a file size limit of the build does not apply to the
 * runner.
 */
static bool may_be_made_here(int file, const struct call *call)
{
	struct stat stat;
	struct rlimit limit;

	return fstat(file, &stat) == 0 && S_ISREG(stat.st_mode) &&
	       prlimit(call->record.tid, RLIMIT_FSIZE, NULL, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

static void *copy_of(const struct call *call, struct asked *asked, size_t bytes)
{
	/* The copy is page-aligned, because O_DIRECT needs buffers that begin at a multiple of a sector. */
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct iovec here = {copy, bytes};

	if (copy == MAP_FAILED)
		return NULL;
	if (process_vm_readv(call->record.tid, &here, 1, asked->parts, asked->part_count, 0) == (ssize_t)bytes)
		return copy;
	munmap(copy, bytes);
	return NULL;
}

void short_write(int listener, int file, struct call *call)
{
	struct asked asked;

	if (!may_be_made_here(file, call) || !read_asked(call, &asked) || asked.bytes < 2)
		return;
	const size_t bytes = asked.bytes / 2 < BYTES_MAX ? asked.bytes / 2 : BYTES_MAX;
	void *copy = copy_of(call, &asked, bytes);
	if (!copy)
		return;
	/* The thread may have ended in between, and another one may have its number. */
	if (notify_is_valid(listener, call->id)) {
		const struct iovec half = {copy, bytes};
		const uint64_t from_ns = clock_ns();
		const ssize_t written = syscall(SYS_pwritev2, file, &half, 1, asked.offset, 0, asked.flags);

		/* Errors are left to the kernel, together with a signal that may accompany them. */
		if (written > 0) {
			call->record.native_ns = clock_ns() - from_ns;
			call->record.flags |= CALL_FLAG_SHORT_WRITE;
			call->is_answered = true;
			call->value = written;
		}
	}
	munmap(copy, bytes);
}
