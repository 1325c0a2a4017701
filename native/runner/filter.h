#ifndef KREPLAY_RUNNER_FILTER_H
#define KREPLAY_RUNNER_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/filter.h>

#define FILTER_LENGTH_MAX 192

struct filter_choice {
	uint32_t op_mask;  /* 1 << OP_*: calls to report */
	bool standard_fds; /* also those on fds 0 to 2 */
	bool uncovered;    /* also those that are only counted */
};

struct filter {
	struct sock_filter code[FILTER_LENGTH_MAX];
	struct sock_fprog program;
};

void filter_make(struct filter *filter, const struct filter_choice *choice);

/*
 * For the calling thread and what it starts. The listener's fd, or -1. Without CAP_SYS_ADMIN the kernel wants
 * PR_SET_NO_NEW_PRIVS; it is set only then, so that a privileged build can go on to use su.
 */
int filter_install(struct filter *filter, bool *wait_killable);

#endif
