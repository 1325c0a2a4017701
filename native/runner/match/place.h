/* Finds the target of a call: the file of the plan that its descriptor or its mapping refers to. */
#ifndef KREPLAY_RUNNER_PLACE_H
#define KREPLAY_RUNNER_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/seccomp.h>

struct replay;

/* The target of a call. */
struct place {
	uint32_t group;     /* NONE: it is not in the plan */
	uint32_t path_kind; /* PATH_KIND_*; NONE: the descriptor is not open */
	bool is_unseen;     /* it has no file, or one that cannot be seen */
	bool is_guessed;    /* the group is that of other calls by threads of the role */
	bool stands_in;     /* its file has another name than the plan's */
};

/* `role` is the thread's role: a call whose file is not visible gets the group of other calls by that role. */
struct place place_find(struct replay *replay, const struct seccomp_notif *notif, const char *role, unsigned op);

/*
 * Returns whether the call is on a standard descriptor and to nothing that the incident names: to a terminal, a pipe,
 * or the log of this run. If the incident itself used such descriptors for files, they are like any other.
 */
bool place_is_output(struct replay *replay, const struct seccomp_notif *notif, const char *role, unsigned op);

#endif
