/*
 * The memory page through which the processes of a run communicate:
 *
 *   kreplay-runner            waits for the command's calls and answers them
 *     guardian                parent of the command, and of its orphans; outlives the runner if that is killed
 *       command ...
 *
 * All three processes share one table of fds until the command's exec. So the runner has the listener as soon as the
 * filter is installed, without a message that the filter itself could stop.
 */
#ifndef KREPLAY_RUNNER_SHARED_PAGE_H
#define KREPLAY_RUNNER_SHARED_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum stage { STAGE_STARTING, STAGE_LISTENING, STAGE_NO_FILTER, STAGE_SERVING };

struct shared {
	_Atomic uint32_t stage; /* a futex */
	int listener;
	bool wait_killable;
	int filter_errno;
	int exec_errno;

	pid_t command; /* its pid, which is also its process group */
	int command_status;
	uint64_t command_started_ns, command_ended_ns;
	_Atomic bool command_ended;
	_Atomic bool command_stopped;
	_Atomic uint64_t signals_wanted;  /* bits 1 << signal: signals for the whole tree */
	_Atomic unsigned signalled_count; /* number of times that the guardian has sent wanted signals */
};

struct shared *shared_new(void);
void shared_free(struct shared *shared);

void shared_announce(struct shared *shared, enum stage stage);
/* Waits until the run is past the given stage. Returns false on a timeout. */
bool shared_await_stage(struct shared *shared, enum stage stage, uint64_t timeout_ns);

#endif
