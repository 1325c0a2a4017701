#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/guardian.h"
#include "command/relay.h"
#include "command/signals.h"
#include "command/terminal.h"
#include "delay/clock.h"
#include "receive/calibrate.h"
#include "report/exit_codes.h"
#include "run/run_lines.h"
#include "run/run_state.h"
#include "run/supervise.h"

#define START_WITHIN_NS (10 * NS_PER_S)
#define DRAIN_MS 1000
#define SPIN_NS (100 * NS_PER_US)

uint64_t run_spin_ns(const struct options *options)
{
	if (options->spin_ns != SPIN_CHOSEN_BY_CPUS)
		return options->spin_ns;
	/* On a single CPU, spinning would keep the build from running. */
	return sysconf(_SC_NPROCESSORS_ONLN) >= 2 ? SPIN_NS : 0;
}

/* Reports the failure once: if it is read from the control channel, its reader shows it to the user. */
static int end_failed(struct run *run, int code)
{
	run_line_failed(&run->control, run->failure.text);
	control_drain(&run->control, DRAIN_MS);
	if (!control_has_told(&run->control))
		fprintf(stderr, "kreplay-runner: %s\n", run->failure.text);
	return code;
}

static bool load(struct run *run)
{
	const struct options *options = run->options;

	if (!plan_open(&run->plan, options->plan, &run->failure))
		return false;
	const uint64_t seed = options->has_seed ? options->seed : run->plan.header->seed;
	if (!streams_make(&run->streams, &run->plan) || !faults_make(&run->replay.faults, &run->plan) ||
	    !plan_files_make(&run->replay.files, &run->plan, options) ||
	    !matcher_make(&run->replay.matcher, &run->streams, options->mode, seed) ||
	    (options->draws_by_class && !classes_make(&run->replay.classes, &run->streams)) ||
	    (options->mode == MODE_STALL && !stalls_make(&run->replay.stalls, &run->streams, options->threshold_ns)))
		return fail(&run->failure, "plan %s: no memory for it", options->plan);
	run->replay.matcher.classes = options->draws_by_class ? &run->replay.classes : NULL;
	run->replay.matcher.has_ended = observe_has_ended;
	return report_open(&run->report, options->report, &run->failure);
}

static bool start(struct run *run)
{
	struct filter filter;

	filter_make(&filter, &(struct filter_choice){
				 .op_mask = run->seen.any_fd,
				 .standard_op_mask = run->seen.standard_fds,
				 .uncovered = true,
			     });
	run->child.filter = &filter;
	run->child.command = run->options->command;
	run->child.takes_terminal = run->has_terminal = terminal_is_ours();
	/* If the guardian is killed, its orphans become children of this process. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	run->guardian = guardian_start(run->shared, &run->child, run->news_fd);
	if (run->guardian < 0)
		return fail(&run->failure, "clone: %s", strerror(errno));
	if (!shared_await_stage(run->shared, STAGE_STARTING, START_WITHIN_NS))
		return fail(&run->failure, "the command was not started in time");
	if (run->shared->stage == STAGE_NO_FILTER)
		return fail(&run->failure, "%s", listener_obstacle(run->shared->filter_errno));
	return server_start(&run->server, run->shared, run_spin_ns(run->options), &run->failure);
}

static bool is_sync_stream(const struct streams *streams, uint32_t index)
{
	return streams->groups[streams->streams[index].group].is_sync;
}

static bool prepare(struct run *run)
{
	run->shared = shared_new();
	run->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!run->shared || run->news_fd < 0)
		return fail(&run->failure, "no memory: %s", strerror(errno));
	if (!load(run) || !calibrate(&run->calibration, run_spin_ns(run->options), &run->child, &run->failure))
		return false;
	run->replay.options = run->options;
	run->replay.calibration = &run->calibration;
	run->replay.streams = &run->streams;
	run->replay.has_standard_fds = run->plan.header->flags & PLAN_FLAG_STANDARD_FDS;
	links_init(&run->replay.links);
	run->replay.server = &run->server;
	run->server.decide = replay_decide;
	run->server.interrupted_before = replay_interrupted;
	run->server.look = replay_look;
	pthread_mutex_init(&run->replay.repetitions_lock, NULL);
	signal_stacks_init(&run->replay.signal_stacks);
	run->server.context = &run->replay;
	run->server.report = &run->report;
	run_line_calibrated(&run->control, &run->calibration);
	run->seen = seen_ops(&run->plan, run->options->threshold_ns);
	for (uint32_t i = 0; i < run->streams.stream_count; i++)
		if (run->seen.any_fd & (is_sync_stream(&run->streams, i) ? ALL_SYNCS : ALL_WRITES))
			run_line_stream(&run->control, &run->streams, i);
	const struct report_header header = {
	    .magic = REPORT_MAGIC,
	    .call_bytes = sizeof(struct report_call),
	    .stream_count = run->streams.stream_count,
	    .started_ns = clock_ns(),
	    .plan_seed = run->plan.header->seed,
	};
	return report_start(&run->report, &header, &run->failure);
}

/* Ends the run after all processes of the command have ended. */
static int end(struct run *run, uint64_t stolen_ns)
{
	const struct shared *shared = run->shared;

	server_stop(&run->server);
	report_flush(&run->report);
	if (run->has_terminal)
		terminal_give(getpgrp());
	if (shared->exec_errno) {
		fail(&run->failure, "%s: %s", run->options->command[0], strerror(shared->exec_errno));
		return end_failed(run, shared->exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
	}
	if (run->failure.text[0])
		return end_failed(run, EXIT_RUNNER_FAILED);
	if (!shared->command_ended) {
		fail(&run->failure, "the process that watches over the command was killed");
		return end_failed(run, EXIT_RUNNER_FAILED);
	}
	/*
	 * If no process handles signals, none of these calls failed: the kernel repeated them, or their threads have
	 * ended.
	 */
	if (run->replay.threads.handles_signals)
		run->replay.uncovered[UNCOVERED_INTERRUPTED] = run->replay.interrupted;
	run_line_uncovered(&run->control, &run->replay);
	run_lines_elsewhere(&run->control, &run->replay);
	run_line_ended(&run->control, run, stolen_ns);
	if (run->report.write_errno || run->report.lost_count) {
		fail(&run->failure, "report %s: %s, %llu calls are missing", run->options->report,
		     run->report.write_errno ? strerror(run->report.write_errno) : "written too slowly",
		     (unsigned long long)run->report.lost_count);
		return end_failed(run, EXIT_RUNNER_FAILED);
	}
	control_drain(&run->control, DRAIN_MS);
	return run_exit_code(shared->command_status);
}

/* Returns the CPU time that the hypervisor gave to others since the machine started; 0 if it is not reported. */
static uint64_t steal_ns(void)
{
	unsigned long long ticks = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (!file)
		return 0;
	/* The columns are user nice system idle iowait irq softirq steal. */
	if (fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		ticks = 0;
	fclose(file);
	return ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
}

static int run_to_end(const struct options *options)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		return EXIT_RUNNER_FAILED;
	run->options = options;
	control_open(&run->control, options->control_fd);
	run->signal_fd = signals_take(&run->child);
	if (run->signal_fd < 0) {
		fail(&run->failure, "signalfd: %s", strerror(errno));
		return end_failed(run, EXIT_RUNNER_FAILED);
	}
	if (!prepare(run))
		return end_failed(run, EXIT_RUNNER_FAILED);
	const uint64_t stolen_before_ns = steal_ns();
	if (!start(run)) {
		supervise_kill(run);
		return end_failed(run, EXIT_RUNNER_FAILED);
	}
	run_line_started(&run->control, run->shared->command);
	supervise(run);
	return end(run, steal_ns() - stolen_before_ns);
}

int run_command(const struct options *options)
{
	/* The relays start before there are threads, locks and signals that they would inherit. */
	struct tails *tails = options->tails ? relay_start(options->tails) : NULL;
	const int code = run_to_end(options);

	/* The last output of the command is passed on before `kreplay run` writes its own lines. */
	if (tails)
		relay_drain(tails);
	return code;
}
