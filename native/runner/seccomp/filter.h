#ifndef KREPLAY_RUNNER_FILTER_H
#define KREPLAY_RUNNER_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/filter.h>

#define FILTER_LENGTH_MAX 192

struct filter_choice {
	uint32_t op_mask;          /* 1 << OP_*: calls to report */
	uint32_t standard_op_mask; /* those of them to report on fds 0 to 2, too */
	bool uncovered;            /* also calls that are only counted */
};

struct filter {
	struct sock_filter code[FILTER_LENGTH_MAX];
	struct sock_fprog program;
};

void filter_make(struct filter *filter, const struct filter_choice *choice);

/*
 * Installs the filter for the calling thread and its descendants. Returns the listener's fd, or -1. Without
 * CAP_SYS_ADMIN, the kernel requires PR_SET_NO_NEW_PRIVS. It is set only in that case, so that a privileged build can
 * still use su.
 */
int filter_install(struct filter *filter, bool *wait_killable);

#endif
