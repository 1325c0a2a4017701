#ifndef KREPLAY_RUNNER_CALIBRATE_H
#define KREPLAY_RUNNER_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "command/child.h"
#include "report/failure.h"

/* Features of this kernel for a seccomp listener, found by trying them. */
struct features {
	bool wait_killable;
	bool sync_wake_up;
	bool pidfd_getfd;
};

struct calibration {
	struct features features;
	uint64_t floor_ns;     /* duration of a call that passes at once: no call can take less */
	uint64_t bias_ns;      /* how much longer than its hold time a held call takes */
	uint64_t sleep_p50_ns; /* how late a plain sleep ends on this machine now */
	uint64_t sleep_p99_ns;
};

/* Starts a process of its own behind a filter and measures its calls, which takes about 30 ms. */
bool calibrate(struct calibration *calibration, uint64_t spin_ns, const struct child_work *signals,
	       struct failure *failure);

/* Returns the reason why filter_install() failed, in words. */
const char *listener_obstacle(int error);

#endif
