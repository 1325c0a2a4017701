#include "run/run_lines.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

int run_exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void run_line_calibrated(struct control *control, const struct calibration *calibration)
{
	control_begin(control, "calibrated");
	control_number(control, "floor_ns", calibration->floor_ns);
	control_number(control, "bias_ns", calibration->bias_ns);
	control_number(control, "sleep_p50_ns", calibration->sleep_p50_ns);
	control_number(control, "sleep_p99_ns", calibration->sleep_p99_ns);
	control_object(control, "features");
	control_flag(control, "wait_killable", calibration->features.wait_killable);
	control_flag(control, "sync_wake_up", calibration->features.sync_wake_up);
	control_flag(control, "pidfd_getfd", calibration->features.pidfd_getfd);
	control_object_end(control);
	control_end(control);
}

void run_line_started(struct control *control, pid_t pid)
{
	control_begin(control, "started");
	control_number(control, "pid", pid);
	control_end(control);
}

void run_line_stream(struct control *control, const struct streams *streams, uint32_t index)
{
	const struct stream *stream = &streams->streams[index];
	const struct group *group = &streams->groups[stream->group];

	control_begin(control, "stream");
	control_number(control, "stream", index);
	control_text(control, "op_class", group->is_sync ? "sync" : "write");
	control_text(control, "path", group->file);
	control_text(control, "role", stream->role);
	control_number(control, "recorded_events", stream->event_count);
	control_end(control);
}

void run_line_uncovered(struct control *control, struct replay *replay)
{
	for (unsigned what = 0; what < UNCOVERED_COUNT; what++) {
		const uint64_t count = atomic_load(&replay->uncovered[what]);

		if (count == 0)
			continue;
		control_begin(control, "uncovered");
		control_text(control, "what", UNCOVERED_NAMES[what]);
		control_number(control, "count", count);
		control_end(control);
	}
}

void run_lines_elsewhere(struct control *control, const struct replay *replay)
{
	for (uint32_t i = 0; i < replay->elsewhere_count; i++) {
		control_begin(control, "elsewhere");
		control_text(control, "path", replay->elsewhere[i]);
		control_end(control);
	}
}

void run_line_ended(struct control *control, const struct run *run, uint64_t stolen_ns)
{
	const int status = run->shared->command_status;
	const struct totals *totals = &run->server.totals;
	const struct matcher *matcher = &run->replay.matcher;
	char signal[16];

	control_begin(control, "ended");
	control_number(control, "exit_code", run_exit_code(status));
	if (WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));
		/* Real-time signals have no names. */
		snprintf(signal, sizeof(signal), name ? "SIG%s" : "%s", name ? name : "SIGRT");
	}
	control_text(control, "signal", WIFSIGNALED(status) ? signal : NULL);
	control_number(control, "duration_ns", run->shared->command_ended_ns - run->shared->command_started_ns);
	control_number(control, "calls", totals->calls);
	control_number(control, "delayed", totals->delayed);
	control_number(control, "injected_ns", totals->injected_ns);
	control_number(control, "late_p50_ns", lateness_percentile(&totals->lateness, 50));
	control_number(control, "late_p99_ns", lateness_percentile(&totals->lateness, 99));
	control_number(control, "late_max_ns", totals->lateness.max_ns);
	control_number(control, "unreplayed_events", run->plan.header->event_count - matcher->used_count);
	control_number(control, "steal_ns", stolen_ns);
	control_number(control, "switched", matcher->switched_count);
	control_number(control, "overflowed", totals->overflowed);
	control_number(control, "interrupted", totals->interrupted);
	control_number(control, "outlived", run->outlived);
	control_end(control);
}

void run_line_failed(struct control *control, const char *reason)
{
	control_begin(control, "failed");
	control_text(control, "reason", reason);
	control_end(control);
}
