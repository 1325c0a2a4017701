#include "receive/calibrate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "delay/clock.h"
#include "identify/links.h"
#include "receive/server.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define CALLS_OF_EACH 50
#define HELD_NS (200 * NS_PER_US)
/* A larger bias is noise of the machine, not the cost of a reply. */
#define BIAS_NS_MAX (50 * NS_PER_US)
#define LOOK_EVERY_MS 1
#define START_WITHIN_NS (10 * NS_PER_S)

struct measured {
	int file;
	uint64_t took_ns[2 * CALLS_OF_EACH];
};

static void write_and_measure(void *context)
{
	struct measured *measured = context;

	for (int i = 0; i < 2 * CALLS_OF_EACH; i++) {
		const uint64_t from_ns = clock_ns();

		if (write(measured->file, "", 1) < 0)
			_exit(1);
		measured->took_ns[i] = clock_ns() - from_ns;
	}
}

struct served {
	int count;
	struct links links;
};

/* The first half of the calls passes, the second half is held. */
static enum verdict decide(void *context, const struct seccomp_notif *notif, struct call *call)
{
	struct served *served = context;
	char name[PATH_MAX];

	/* Reading the link is included in the floor, because it is a large part of the cost of a call. */
	links_read(&served->links, notif->pid, notif->data.args[0], name, sizeof(name));
	if (served->count++ < CALLS_OF_EACH)
		return VERDICT_PASS;
	call->deadline_ns = call->record.received_ns + HELD_NS;
	return VERDICT_HOLD;
}

static int by_size(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static uint64_t percentile(uint64_t *values, unsigned percent)
{
	qsort(values, CALLS_OF_EACH, sizeof(*values), by_size);
	return values[(CALLS_OF_EACH - 1) * percent / 100];
}

static void *measure_sleep(void *argument)
{
	struct calibration *calibration = argument;
	const struct timespec length = clock_timespec(HELD_NS);
	uint64_t late_ns[CALLS_OF_EACH];

	prctl(PR_SET_TIMERSLACK, 1);
	for (int i = 0; i < CALLS_OF_EACH; i++) {
		const uint64_t from_ns = clock_ns();

		nanosleep(&length, NULL);
		late_ns[i] = clock_ns() - from_ns - HELD_NS;
	}
	calibration->sleep_p50_ns = percentile(late_ns, 50);
	calibration->sleep_p99_ns = percentile(late_ns, 99);
	return NULL;
}

static bool can_borrow_fds(pid_t child)
{
	const int process = syscall(SYS_pidfd_open, child, 0);
	const int file = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, STDIN_FILENO, 0);
	/* EBADF means that borrowing is allowed, but the child has no such fd. */
	const bool is_allowed = process >= 0 && (file >= 0 || errno == EBADF);

	if (file >= 0)
		close(file);
	if (process >= 0)
		close(process);
	return is_allowed;
}

const char *listener_obstacle(int error)
{
	switch (error) {
	case EBUSY:
		return "a seccomp listener is there already: this runs inside another replay, or a container runtime's";
	case EINVAL:
	case ENOSYS:
	case EOPNOTSUPP:
		return "this kernel has no seccomp user notification";
	case EACCES:
	case EPERM:
		return "installing a seccomp listener is not permitted here";
	default:
		return strerror(error);
	}
}

static bool serve(struct calibration *calibration, struct shared *shared, uint64_t spin_ns, pid_t child,
		  struct failure *failure)
{
	int status = 0;
	struct served served = {0};
	struct server *server = calloc(1, sizeof(*server));

	if (!server)
		return fail(failure, "no memory");
	links_init(&served.links);
	server->decide = decide;
	server->context = &served;
	calibration->features.pidfd_getfd = can_borrow_fds(child);
	if (!server_start(server, shared, spin_ns, failure))
		return false;
	calibration->features.wait_killable = shared->wait_killable;
	calibration->features.sync_wake_up = server->wakes_synchronously;
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (atomic_load(&server->receive_errno))
			kill(child, SIGKILL);
		poll(NULL, 0, LOOK_EVERY_MS);
	}
	const int receive_errno = atomic_load(&server->receive_errno);
	server_stop(server);
	free(server);
	links_close(&served.links);
	if (receive_errno)
		return fail(failure, "calls cannot be received: %s", strerror(receive_errno));
	return status == 0 || fail(failure, "calibration ended with status %d", status);
}

static bool measure_calls(struct calibration *calibration, struct shared *shared, struct measured *measured,
			  uint64_t spin_ns, const struct child_work *signals, struct failure *failure)
{
	struct filter filter;
	struct child_work work = *signals;
	const pid_t parent = getpid();

	work.filter = &filter;
	work.command = NULL;
	work.run = write_and_measure;
	work.run_context = measured;
	work.takes_terminal = false;
	filter_make(&filter, &(struct filter_choice){.op_mask = 1u << OP_WRITE});
	const pid_t child = clone_with_fds();
	if (child < 0)
		return fail(failure, "clone: %s", strerror(errno));
	if (child == 0)
		child_main(shared, &work, parent);
	bool is_measured =
	    shared_await_stage(shared, STAGE_STARTING, START_WITHIN_NS) && shared->stage == STAGE_LISTENING;
	if (!is_measured) {
		fail(failure, "%s", listener_obstacle(shared->filter_errno));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		return false;
	}
	is_measured = serve(calibration, shared, spin_ns, child, failure);
	close(shared->listener);
	return is_measured;
}

/* The runner reads the state of threads from /proc, so that has to be of its own PID namespace. */
static bool is_proc_ours(void)
{
	char self[16] = "";

	return readlink("/proc/self", self, sizeof(self) - 1) > 0 && strtol(self, NULL, 10) == getpid();
}

bool calibrate(struct calibration *calibration, uint64_t spin_ns, const struct child_work *signals,
	       struct failure *failure)
{
	struct measured *measured =
	    mmap(NULL, sizeof(*measured), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct shared *shared = shared_new();
	pthread_t sleeper;

	*calibration = (struct calibration){0};
	if (!is_proc_ours())
		return fail(failure, "/proc is missing, or belongs to another PID namespace: mount that of this one");
	if (measured == MAP_FAILED || !shared)
		return fail(failure, "no memory");
	/* The filter does not report calls on the standard fds, so the file needs a higher number. */
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	measured->file = fcntl(null, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(null);
	if (measured->file < 0)
		return fail(failure, "/dev/null: %s", strerror(errno));
	if (!measure_calls(calibration, shared, measured, spin_ns, signals, failure))
		return false;
	close(measured->file);
	if (pthread_create(&sleeper, NULL, measure_sleep, calibration) == 0)
		pthread_join(sleeper, NULL);
	calibration->floor_ns = percentile(measured->took_ns, 50);
	const uint64_t held_ns = percentile(measured->took_ns + CALLS_OF_EACH, 50);
	calibration->bias_ns = held_ns < HELD_NS ? 0 : held_ns - HELD_NS;
	if (calibration->bias_ns > BIAS_NS_MAX)
		calibration->bias_ns = BIAS_NS_MAX;
	shared_free(shared);
	munmap(measured, sizeof(*measured));
	return true;
}
