#ifndef KREPLAY_RUNNER_REPLAY_H
#define KREPLAY_RUNNER_REPLAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "calibrate.h"
#include "classes.h"
#include "faults.h"
#include "links.h"
#include "match.h"
#include "options.h"
#include "plan_files.h"
#include "server.h"
#include "stalls.h"
#include "syscalls.h"
#include "threads.h"

/* Decides, for each call that the server receives, how long it is to take. */
struct replay {
	const struct options *options;
	const struct calibration *calibration;
	const struct streams *streams;
	struct matcher matcher;
	struct classes classes; /* for it, when they are asked for */
	struct stalls stalls;   /* in place of it in mode stall */
	struct faults faults;
	struct server *server;
	struct threads threads;
	struct links links;
	struct plan_files files;
	struct table place_by_name;       /* of files, as seen */
	struct table file_by_unsure_name; /* a hash of the whole name, by one as recorded */
	struct table unclear_files;       /* by whole names: those that are not what a name is taken for */
	_Atomic bool is_passing;          /* everything, unseen */
	_Atomic uint64_t uncovered[UNCOVERED_COUNT];
};

enum verdict replay_decide(void *replay, const struct seccomp_notif *notif, struct call *call);

/* Lets go of what is held, and of what comes until it is called with false. */
void replay_pass(struct replay *replay, bool is_passing);

#endif
