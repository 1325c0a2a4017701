#ifndef KREPLAY_RUNNER_FAILURE_H
#define KREPLAY_RUNNER_FAILURE_H

#include <stdbool.h>

/* Why something could not be done, in words for the person who started the run. */
struct failure {
	char text[512];
};

/* Always false, so that it can be returned. */
__attribute__((format(printf, 2, 3))) bool fail(struct failure *failure, const char *format, ...);

#endif
