/*
 * Chooses the calls of a command that the filter reports, by their operation: the writes, or the syncs, if any of them
 * is to be held or to fail. Others are left alone, because a call behind the filter takes longer, and a signal can
 * interrupt it.
 */
#ifndef KREPLAY_RUNNER_SEEN_OPS_H
#define KREPLAY_RUNNER_SEEN_OPS_H

#include <stdint.h>

#include "plan/plan.h"

/* Masks of 1 << OP_*. */
struct seen_ops {
	uint32_t any_fd;
	/*
	 * Calls that the filter reports on fds 0 to 2, too: every process of a build can have a file of the plan as its
	 * output, and a filter does not change after it was installed. They are left alone there only if the plan has
	 * no files.
	 */
	uint32_t standard_fds;
};

struct seen_ops seen_ops(const struct plan *plan, uint64_t threshold_ns);

#endif
