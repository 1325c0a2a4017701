#include "run/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/guardian.h"
#include "command/process_tree.h"
#include "command/signals.h"
#include "command/terminal.h"
#include "delay/clock.h"

#define KILL_AFTER_NS (5 * NS_PER_S)
#define KILL_AGAIN_NS NS_PER_S
/* Limit of the time that a record is only in memory, where it is lost if the runner is killed. */
#define FLUSH_EVERY_MS 50
#define REAP_EVERY_MS 2
/* The guardian sends a signal within a few milliseconds, unless it was killed or stopped. */
#define SIGNALLED_WITHIN_MS 200

static void ask_to_end(struct run *run, int signal)
{
	guardian_signal(run->shared, run->guardian, signal);
	/* A stopped process would not handle the signal. */
	guardian_signal(run->shared, run->guardian, SIGCONT);
	if (run->kill_at_ns == 0)
		run->kill_at_ns = clock_ns() + KILL_AFTER_NS;
}

/*
 * Ends the run, because its result is not wanted. The signal comes first: a call that passes before it would let the
 * command go on, or end as if it had not been stopped.
 */
static void stop(struct run *run)
{
	const unsigned before = atomic_load(&run->shared->signalled_count);

	ask_to_end(run, SIGTERM);
	for (int waited_ms = 0; waited_ms < SIGNALLED_WITHIN_MS; waited_ms++) {
		if (atomic_load(&run->shared->signalled_count) != before)
			break;
		poll(NULL, 0, 1);
	}
	replay_pass(&run->replay, true);
}

/* If the guardian is killed, so is the command: the remaining processes are then children of this one. */
static void kill_orphans(void)
{
	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		process_tree_signal(getpid(), 0, SIGKILL);
		poll(NULL, 0, REAP_EVERY_MS);
	}
}

static void look_after_guardian(struct run *run)
{
	if (waitpid(run->guardian, NULL, WNOHANG) == 0)
		return;
	run->is_over = true;
	kill_orphans();
}

static void hear_signals(struct run *run)
{
	for (int signal; (signal = signals_next(run->signal_fd)) > 0;) {
		if (signal == SIGCHLD)
			look_after_guardian(run);
		else
			ask_to_end(run, signal);
	}
}

static void hear_control(struct run *run, short events)
{
	switch (control_read(&run->control, events)) {
	case COMMAND_PASSTHROUGH:
		replay_pass(&run->replay, true);
		break;
	case COMMAND_RESUME:
		replay_pass(&run->replay, false);
		break;
	case COMMAND_STOP:
		stop(run);
		break;
	case COMMAND_NONE:
		break;
	}
}

static void hear_news(struct run *run)
{
	struct shared *shared = run->shared;
	uint64_t count;

	if (read(run->news_fd, &count, sizeof(count)) < 0)
		return;
	if (atomic_exchange(&shared->command_stopped, false) && run->has_terminal) {
		terminal_stop_job();
		terminal_give(shared->command);
		guardian_signal(shared, run->guardian, SIGCONT);
	}
	if (atomic_load(&shared->command_ended) && !run->is_ending_noted) {
		run->is_ending_noted = true;
		run->linger_until_ns = clock_ns() + run->options->linger_ns;
	}
}

static void watch_the_clock(struct run *run)
{
	const uint64_t now = clock_ns();

	if (run->linger_until_ns > 0 && now >= run->linger_until_ns) {
		run->linger_until_ns = 0;
		run->outlived = process_tree_count(run->guardian);
		ask_to_end(run, SIGTERM);
	}
	if (run->kill_at_ns > 0 && now >= run->kill_at_ns) {
		run->kill_at_ns = now + KILL_AGAIN_NS;
		guardian_signal(run->shared, run->guardian, SIGKILL);
	}
}

/* Kills the command if its calls cannot be received, because they would wait forever. */
static void look_after_receiver(struct run *run)
{
	const int error = atomic_load(&run->server.receive_errno);

	if (!error || run->failure.text[0])
		return;
	fail(&run->failure, "calls of the command can no longer be received: %s; it was ended", strerror(error));
	guardian_signal(run->shared, run->guardian, SIGKILL);
	run->kill_at_ns = clock_ns() + KILL_AGAIN_NS;
}

void supervise(struct run *run)
{
	struct pollfd sources[3] = {
	    {.fd = run->signal_fd, .events = POLLIN},
	    {.fd = run->news_fd, .events = POLLIN},
	    {.fd = run->control.fd},
	};

	/* The guardian may have ended before its signal could be seen. */
	look_after_guardian(run);
	while (!run->is_over) {
		sources[2].events = control_events(&run->control);
		poll(sources, 3, FLUSH_EVERY_MS);
		if (sources[2].fd >= 0 && sources[2].revents)
			hear_control(run, sources[2].revents);
		/* A failed write of a line also shows that the other side is gone, even before the first poll. */
		if (sources[2].fd >= 0 && run->control.is_closed) {
			sources[2].fd = -1;
			stop(run);
		}
		hear_news(run);
		hear_signals(run);
		watch_the_clock(run);
		look_after_receiver(run);
		report_flush(&run->report);
	}
}

void supervise_kill(struct run *run)
{
	if (run->guardian > 0)
		kill_orphans();
}
