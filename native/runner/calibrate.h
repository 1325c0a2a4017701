#ifndef KREPLAY_RUNNER_CALIBRATE_H
#define KREPLAY_RUNNER_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "child.h"
#include "failure.h"

/* What this kernel does for a listener, found out by asking it. */
struct features {
	bool wait_killable;
	bool sync_wake_up;
	bool pidfd_getfd;
};

struct calibration {
	struct features features;
	uint64_t floor_ns;     /* what a call takes that is let through at once: none can take less */
	uint64_t bias_ns;      /* how much longer than held a held call takes */
	uint64_t sleep_p50_ns; /* how late a plain sleep ends on this machine now */
	uint64_t sleep_p99_ns;
};

/* This program puts a process of its own behind a filter, and measures its calls. About 30 ms. */
bool calibrate(struct calibration *calibration, uint64_t spin_ns, const struct child_work *signals,
	       struct failure *failure);

/* Why filter_install() failed, in words. */
const char *listener_obstacle(int error);

#endif
