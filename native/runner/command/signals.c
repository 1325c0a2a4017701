#include "command/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int PASSED_ON[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

int signals_take(struct child_work *child)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction by_default = {.sa_handler = SIG_DFL};
	sigset_t heard, blocked;

	sigemptyset(&heard);
	for (unsigned i = 0; i < sizeof(PASSED_ON) / sizeof(*PASSED_ON); i++)
		sigaddset(&heard, PASSED_ON[i]);
	sigaddset(&heard, SIGCHLD);
	blocked = heard;
	/* SIGTTOU would stop this program when it changes the terminal while the command is in the foreground. */
	sigaddset(&blocked, SIGTTOU);
	/* The guardian waits for SIGUSR1 and SIGUSR2, and inherits this mask. */
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	sigprocmask(SIG_BLOCK, &blocked, &child->signal_mask);
	/* If SIGCHLD were ignored, children would be reaped before their status is read. */
	sigaction(SIGCHLD, &by_default, NULL);
	sigaction(SIGPIPE, &ignore, &child->on_pipe);
	return signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
}

int signals_next(int signal_fd)
{
	struct signalfd_siginfo info;

	return read(signal_fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}
