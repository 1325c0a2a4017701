/*
 * The guardian is a second process that keeps the seccomp listener open. If no process had it open, every intercepted
 * call would fail with ENOSYS, which would look like a bug of the build. The guardian shares the table of fds. As the
 * parent and subreaper of the command, it finds all processes that the command left, even after the runner was killed.
 */
#include "command/guardian.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/process_tree.h"
#include "delay/clock.h"

#define SIGNAL_RUNNER_DIED SIGUSR1
#define SIGNAL_WANTED SIGUSR2
#define REAP_EVERY_MS 2

static void tell_runner(int news_fd)
{
	const uint64_t one = 1;

	if (write(news_fd, &one, sizeof(one)) < 0)
		return;
}

/* Reads the status of children that ended or stopped. Returns false if no children are left. */
static bool reap(struct shared *shared, int news_fd)
{
	for (;;) {
		int status;
		const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);

		if (pid <= 0)
			return pid == 0 || errno != ECHILD;
		if (pid != shared->command)
			continue;
		if (WIFSTOPPED(status)) {
			atomic_store(&shared->command_stopped, true);
		} else {
			shared->command_status = status;
			shared->command_ended_ns = clock_ns();
			atomic_store(&shared->command_ended, true);
		}
		tell_runner(news_fd);
	}
}

/*
 * Returns the command's process group; 0 once the command was reaped, because another process group may then have its
 * number.
 */
static pid_t group_of_command(const struct shared *shared)
{
	return atomic_load(&shared->command_ended) ? 0 : shared->command;
}

static void signal_wanted(struct shared *shared)
{
	const uint64_t wanted = atomic_exchange(&shared->signals_wanted, 0);

	for (int signal = 1; signal < 64; signal++)
		if (wanted & 1ull << signal)
			process_tree_signal(getpid(), group_of_command(shared), signal);
	if (wanted)
		atomic_fetch_add(&shared->signalled_count, 1);
}

static void kill_all(struct shared *shared, int news_fd)
{
	/* The loop ends because orphans become children of this process as their parents exit. */
	while (reap(shared, news_fd)) {
		process_tree_signal(getpid(), group_of_command(shared), SIGKILL);
		poll(NULL, 0, REAP_EVERY_MS);
	}
}

static _Noreturn void guardian_main(struct shared *shared, const struct child_work *child, int news_fd, pid_t runner)
{
	sigset_t signals;

	prctl(PR_SET_NAME, "kreplay-guard");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, SIGNAL_RUNNER_DIED);
	setpgid(0, 0);
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGNAL_RUNNER_DIED);
	sigaddset(&signals, SIGNAL_WANTED);

	const pid_t guardian = getpid();
	const pid_t command = clone_with_fds();
	if (command == 0)
		child_main(shared, child, guardian);
	shared->command = command;
	if (command < 0) {
		shared->filter_errno = errno;
		shared_announce(shared, STAGE_NO_FILTER);
		_exit(EXIT_FAILURE);
	}
	setpgid(command, command);
	while (reap(shared, news_fd)) {
		if (getppid() != runner) {
			kill_all(shared, news_fd);
			break;
		}
		sigwaitinfo(&signals, NULL);
		signal_wanted(shared);
	}
	_exit(EXIT_SUCCESS);
}

pid_t guardian_start(struct shared *shared, const struct child_work *child, int news_fd)
{
	const pid_t runner = getpid();
	const pid_t guardian = clone_with_fds();

	if (guardian == 0)
		guardian_main(shared, child, news_fd, runner);
	return guardian;
}

void guardian_signal(struct shared *shared, pid_t guardian, int signal)
{
	atomic_fetch_or(&shared->signals_wanted, 1ull << signal);
	kill(guardian, SIGNAL_WANTED);
}
