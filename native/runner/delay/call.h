#ifndef KREPLAY_RUNNER_CALL_H
#define KREPLAY_RUNNER_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gen/format.h"

#define NOT_IN_HEAP UINT32_MAX

/* A call of the build, from its notification to the reply. */
struct call {
	_Atomic uint64_t id; /* 0 as soon as its reply was sent, or failed to be sent */
	uint64_t deadline_ns;
	uint32_t heap_index;
	uint32_t outstanding_index;
	struct report_call record;
	bool is_recorded;
	bool is_repeated; /* the thread was interrupted, and makes the same call again */
	bool is_output;   /* to the build's own terminal, pipe or log: it is neither counted nor recorded */
	bool is_answered; /* with `value` and `error`, instead of letting the call happen */
	int64_t value;
	int error;
	/* Arguments of a call that the runner makes itself. */
	uint64_t arguments[6];
	struct call *next;
};

#endif
