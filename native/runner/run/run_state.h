#ifndef KREPLAY_RUNNER_RUN_STATE_H
#define KREPLAY_RUNNER_RUN_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "command/child.h"
#include "command/shared_page.h"
#include "match/replay.h"
#include "plan/options.h"
#include "plan/plan.h"
#include "plan/streams.h"
#include "receive/calibrate.h"
#include "receive/server.h"
#include "report/control.h"
#include "report/failure.h"
#include "report/report.h"
#include "run/seen_ops.h"

/* The whole state of one run. */
struct run {
	const struct options *options;
	struct failure failure;
	struct control control;
	struct plan plan;
	struct seen_ops seen;
	struct streams streams;
	struct calibration calibration;
	struct report report;
	struct replay replay;
	struct server server;
	struct shared *shared;
	struct child_work child;
	pid_t guardian;
	int signal_fd;
	int news_fd;
	bool has_terminal;

	bool is_over;             /* all processes of the command have ended */
	bool is_ending_noted;     /* the command itself has ended, others may linger */
	uint64_t linger_until_ns; /* 0: they need not end yet */
	uint64_t kill_at_ns;      /* 0: no process was asked to end */
	unsigned outlived;        /* processes that had to be ended after the command */
};

#endif
