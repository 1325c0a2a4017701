#include "command/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "delay/clock.h"

#define COPY_BYTES 65536
#define LOOK_EVERY_NS (NS_PER_MS / 2)

/* An output, and the pipe that replaces it. */
struct output {
	int fd;
	int pipe[2];
	struct tail *tail;
};

/* The pipe through which the relays report that they are ready. Until then, the outputs are not replaced. */
struct ready {
	int pipe[2];
};

static void keep(struct tail *tail, const uint8_t *bytes, size_t count)
{
	const uint64_t passed = atomic_load(&tail->bytes_passed);

	for (size_t at = count > TAIL_BYTES ? count - TAIL_BYTES : 0; at < count; at++)
		tail->bytes[(passed + at) % TAIL_BYTES] = bytes[at];
	atomic_store(&tail->bytes_passed, passed + count);
}

/* Writes all bytes, even if the output is non-blocking: other processes that share the output may set this flag. */
static bool write_all(int fd, const uint8_t *bytes, size_t count)
{
	for (size_t done = 0; done < count;) {
		const ssize_t written = write(fd, bytes + done, count - done);

		if (written >= 0)
			done += written;
		else if (errno == EAGAIN)
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
		else if (errno != EINTR)
			return false;
	}
	return true;
}

/* Copies from `in` to `out`, until all writers of `in` have ended or nobody reads `out`. */
static void pass_on(int in, int out, struct tail *tail)
{
	static uint8_t bytes[COPY_BYTES];
	struct pollfd ends[] = {{.fd = in, .events = POLLIN}, {.fd = out}};

	for (;;) {
		if (poll(ends, 2, -1) < 0 && errno != EINTR)
			return;
		if (ends[1].revents)
			return;
		if (!ends[0].revents)
			continue;
		/* Set before the bytes leave the pipe: relay_drain() checks the pipe first and this flag second. */
		atomic_store(&tail->is_busy, 1);
		const ssize_t count = read(in, bytes, sizeof(bytes));
		if (count == 0 || (count < 0 && errno != EINTR))
			return;
		if (count > 0) {
			keep(tail, bytes, count);
			if (!write_all(out, bytes, count))
				return;
			atomic_fetch_add(&tail->bytes_written, count);
		}
		atomic_store(&tail->is_busy, 0);
	}
}

/* Closes all fds except standard input and output. If the relay kept the write end of its own pipe open, it would
   wait for itself. */
static void close_others(void)
{
	/* Old seccomp profiles of containers refuse close_range(). */
	if (close_range(STDERR_FILENO, ~0u, 0) == 0)
		return;
	for (int fd = sysconf(_SC_OPEN_MAX) - 1; fd >= STDERR_FILENO; fd--)
		close(fd);
}

static _Noreturn void relay_main(const struct output *output, const struct ready *ready)
{
	/* A new session: signals for the command's terminal or process group are not meant for the relay. */
	setsid();
	signal(SIGPIPE, SIG_IGN);
	if (dup2(output->pipe[0], STDIN_FILENO) >= 0 && dup2(output->fd, STDOUT_FILENO) >= 0 &&
	    write(ready->pipe[1], "r", 1) == 1) {
		close_others();
		pass_on(STDIN_FILENO, STDOUT_FILENO, output->tail);
	}
	atomic_store(&output->tail->is_busy, 0);
	_exit(0);
}

/*
 * Starts the relays by an intermediate process, so that they are not children of this process, which waits for all of
 * its children at the end of the run. If one relay does not start, this process closes the pipes, and the other relays
 * end.
 */
static bool start_relays(const struct output *outputs, unsigned count)
{
	struct ready ready;
	unsigned started = 0;
	char byte;

	if (pipe2(ready.pipe, O_CLOEXEC) != 0)
		return false;
	const pid_t starter = fork();
	if (starter == 0) {
		for (unsigned i = 0; i < count; i++)
			if (fork() == 0)
				relay_main(&outputs[i], &ready);
		_exit(0);
	}
	close(ready.pipe[1]);
	while (starter > 0 && waitpid(starter, NULL, 0) < 0 && errno == EINTR)
		;
	while (started < count && read(ready.pipe[0], &byte, 1) == 1)
		started++;
	close(ready.pipe[0]);
	return started == count;
}

static bool is_relayed(int fd, struct stat *file)
{
	return fstat(fd, file) == 0 && (S_ISFIFO(file->st_mode) || S_ISSOCK(file->st_mode));
}

static unsigned list_outputs(struct output *outputs, struct tails *tails)
{
	struct stat first, second;
	const bool has_first = is_relayed(STDOUT_FILENO, &first), has_second = is_relayed(STDERR_FILENO, &second);
	unsigned count = 0;

	if (has_first)
		outputs[count++] = (struct output){.fd = STDOUT_FILENO, .tail = &tails->outputs[0]};
	if (has_first && has_second && first.st_dev == second.st_dev && first.st_ino == second.st_ino)
		tails->outputs[1].relayed = RELAYED_TOGETHER;
	else if (has_second)
		outputs[count++] = (struct output){.fd = STDERR_FILENO, .tail = &tails->outputs[1]};
	return count;
}

static struct tails *map_tails(const char *path)
{
	const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *tails = MAP_FAILED;

	/* Allocates the blocks now: if the disk had no room for them later, SIGBUS would end the relay. */
	if (file >= 0 && posix_fallocate(file, 0, sizeof(struct tails)) == 0)
		tails = mmap(NULL, sizeof(struct tails), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (file >= 0)
		close(file);
	return tails == MAP_FAILED ? NULL : tails;
}

/* Opens a pipe of the output's size. With another size, the command could write more, or less, before it blocks. */
static bool open_pipe(struct output *output)
{
	const int bytes = fcntl(output->fd, F_GETPIPE_SZ);

	if (pipe2(output->pipe, O_CLOEXEC) != 0)
		return false;
	if (bytes > 0)
		fcntl(output->pipe[1], F_SETPIPE_SZ, bytes);
	return true;
}

struct tails *relay_start(const char *path)
{
	struct tails *tails = map_tails(path);
	struct output outputs[2];
	unsigned opened = 0;
	bool is_started;

	if (!tails)
		return NULL;
	const unsigned count = list_outputs(outputs, tails);
	while (opened < count && open_pipe(&outputs[opened]))
		opened++;
	is_started = opened == count && start_relays(outputs, count);
	for (unsigned i = 0; i < opened; i++) {
		if (is_started && dup2(outputs[i].pipe[1], outputs[i].fd) >= 0)
			outputs[i].tail->relayed = RELAYED_ALONE;
		close(outputs[i].pipe[0]);
		close(outputs[i].pipe[1]);
	}
	if (is_started && tails->outputs[1].relayed == RELAYED_TOGETHER)
		dup2(STDOUT_FILENO, STDERR_FILENO);
	if (is_started)
		return tails;
	munmap(tails, sizeof(*tails));
	return NULL;
}

/*
 * Returns true when the bytes up to `target` are written, when nobody reads the output, or when no bytes are left: the
 * pipe is empty, and the relay is not busy. Programs that outlive the command may go on to write, so the pipe may never
 * be empty.
 */
static bool is_drained(int fd, struct tail *tail, uint64_t target)
{
	struct pollfd end = {.fd = fd, .events = POLLOUT};
	int bytes = 0;

	if (tail->relayed != RELAYED_ALONE || (poll(&end, 1, 0) > 0 && end.revents & POLLERR))
		return true;
	if (atomic_load(&tail->bytes_written) >= target)
		return true;
	return ioctl(fd, FIONREAD, &bytes) == 0 && bytes == 0 && !atomic_load(&tail->is_busy);
}

/* Returns a number of bytes that the output reaches only after all bytes that are now in the pipe or in the relay
   were written. */
static uint64_t find_target(int fd, struct tail *tail)
{
	int bytes = 0;

	ioctl(fd, FIONREAD, &bytes);
	return atomic_load(&tail->bytes_passed) + bytes + COPY_BYTES;
}

void relay_drain(struct tails *tails)
{
	const struct timespec wait = clock_timespec(LOOK_EVERY_NS);
	struct tail *first = &tails->outputs[0], *second = &tails->outputs[1];
	const uint64_t of_first = find_target(STDOUT_FILENO, first), of_second = find_target(STDERR_FILENO, second);

	while (!is_drained(STDOUT_FILENO, first, of_first) || !is_drained(STDERR_FILENO, second, of_second))
		nanosleep(&wait, NULL);
}
