#ifndef KREPLAY_RUNNER_CALL_H
#define KREPLAY_RUNNER_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/seccomp.h>

#include "gen/format.h"

#define NOT_IN_HEAP UINT32_MAX

/* A call of the build, from its notification to the reply. */
struct call {
	_Atomic uint64_t id; /* 0 as soon as its reply was sent, or failed to be sent */
	uint64_t deadline_ns;
	uint32_t heap_index;
	struct report_call record;
	bool is_recorded;
	bool is_repeated; /* the thread was interrupted, and makes the same call again */
	bool is_output;   /* to the build's own terminal, pipe or log: it is neither counted nor recorded */
	bool is_answered; /* with `value` and `error`, instead of letting the call happen */
	int64_t value;
	int error;
	bool is_made;      /* by the runner, instead of the build */
	bool is_looked_at; /* whether the kernel makes it again, see replay_look() */
	uint32_t skipped;  /* calls that are gone, between the call that was received before and this one */
	struct seccomp_data data;
	struct call *next;
};

#endif
