#ifndef KREPLAY_RUNNER_REPLAY_H
#define KREPLAY_RUNNER_REPLAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "identify/links.h"
#include "identify/signal_stacks.h"
#include "identify/threads.h"
#include "match/classes.h"
#include "match/faults.h"
#include "match/match.h"
#include "match/stalls.h"
#include "plan/options.h"
#include "plan/plan_files.h"
#include "receive/calibrate.h"
#include "receive/server.h"
#include "seccomp/syscalls.h"

/* More names of files are not kept: daemon/run/control_lines.ts has the same number. */
#define ELSEWHERE_MAX 1024

/* Decides how long each call that the server receives is to take. */
struct replay {
	const struct options *options;
	const struct calibration *calibration;
	const struct streams *streams;
	struct matcher matcher;
	struct classes classes; /* used by the matcher, if enabled */
	struct stalls stalls;   /* replaces the matcher in mode stall */
	struct faults faults;
	struct server *server;
	struct threads threads;
	struct links links;
	struct plan_files files;
	struct table place_by_name;       /* places of files, by their names in /proc */
	struct table file_by_unsure_name; /* hash of the whole name, by its recorded form */
	struct table unclear_files;       /* by whole name: files that are not the one their recorded name stands for */
	struct table place_of_elsewhere;  /* index in `elsewhere`, by name */
	char *elsewhere[ELSEWHERE_MAX];   /* names here of files that the plan does not have, for proposals of --map */
	uint32_t elsewhere_count;
	bool has_standard_fds; /* the incident itself has files on fds 0 to 2 */
	_Atomic uint64_t
	    interrupted;         /* threads before their calls were received, except those that repeat them since */
	uint64_t interrupted_ns; /* when the last call was interrupted */
	pthread_mutex_t repetitions_lock;
	struct table repetitions; /* by thread: the last one that was seen */
	struct signal_stacks signal_stacks;
	_Atomic bool is_passing; /* all calls pass unseen */
	_Atomic uint64_t uncovered[UNCOVERED_COUNT];
};

enum verdict replay_decide(void *replay, const struct seccomp_notif *notif, struct call *call);

/*
 * Notes that a signal, or the end of its thread, came before a call was received. The thread is not known, so each
 * thread is looked at with its next call: whether it repeats a call, and whether its process handles signals at all.
 */
void replay_interrupted(void *replay, uint64_t now_ns);

/* Finds out whether the call repeats one that was interrupted. It may run on several threads at once. */
void replay_look(void *replay, struct call *call);

/* Releases held calls, and lets new calls pass until it is called with false. */
void replay_pass(struct replay *replay, bool is_passing);

#endif
