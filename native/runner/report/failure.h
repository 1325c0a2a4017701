#ifndef KREPLAY_RUNNER_FAILURE_H
#define KREPLAY_RUNNER_FAILURE_H

#include <stdbool.h>

/* The reason for a failure, in words for the person who started the run. */
struct failure {
	char text[512];
};

/* Always returns false, so that callers can return its result. */
__attribute__((format(printf, 2, 3))) bool fail(struct failure *failure, const char *format, ...);

#endif
