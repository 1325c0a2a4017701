#include "command/child.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "delay/clock.h"
#include "report/exit_codes.h"

#define SERVED_WITHIN_NS (10 * NS_PER_S)

pid_t clone_with_fds(void)
{
	return syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
}

_Noreturn void child_main(struct shared *shared, const struct child_work *work, pid_t parent)
{
	/* The child gets its own process group, so that exactly the command's processes can be signalled. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_RUNNER_FAILED);
	/* SIGTTOU is still blocked, so the call does not stop this process. */
	if (work->takes_terminal)
		tcsetpgrp(STDIN_FILENO, getpid());

	shared->listener = filter_install(work->filter, &shared->wait_killable);
	if (shared->listener < 0) {
		shared->filter_errno = errno;
		shared_announce(shared, STAGE_NO_FILTER);
		_exit(EXIT_RUNNER_FAILED);
	}
	shared_announce(shared, STAGE_LISTENING);
	/* Waits for the runner's thread to start; otherwise, the command's first call would wait for it. */
	shared_await_stage(shared, STAGE_LISTENING, SERVED_WITHIN_NS);
	if (work->run) {
		work->run(work->run_context);
		_exit(0);
	}
	sigaction(SIGPIPE, &work->on_pipe, NULL);
	sigprocmask(SIG_SETMASK, &work->signal_mask, NULL);
	shared->command_started_ns = clock_ns();
	execvp(work->command[0], work->command);
	shared->exec_errno = errno;
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}
