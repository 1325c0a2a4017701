#ifndef KREPLAY_RUNNER_RENAMES_H
#define KREPLAY_RUNNER_RENAMES_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "identify/fdinfo.h"

#define NOT_OPEN (-1)
#define NOT_WATCHED (-1)

/* The file that a descriptor of the build stands for. */
struct watched {
	uint32_t tid;
	int fd;
	int watch;          /* see rename.watch */
	int info;           /* /proc/TID/fdinfo/FD */
	struct fdinfo told; /* content for the watched file */
};

/*
 * Detects renames of some files with inotify(7), which signals the thread that requested the watch. The signal is
 * pending before the rename returns, so that thread cannot receive a later call without having taken the signal, and
 * needs no check as long as none arrives. While a file is watched, no other file can get its inode number. A watch
 * keeps neither the file system nor the space of a deleted file in use: it ends with them, which is reported too.
 *
 * Renames of a directory above the file, and changes by other machines, are not reported.
 *
 * A separate thread adds watches: the kernel asks the file system for permission, and that may be the build itself
 * (FUSE), which would wait for the runner.
 *
 * There can be only one such object, because a signal handler has no context argument.
 */
struct renames {
	enum { NOT_STARTED, NONE_TO_HAVE, IDLE, ASKED, ANSWERED } _Atomic state;
	int inotify; /* NOT_OPEN */
	sem_t asked;
	struct watched file; /* the request, and its result */
	bool has_any_ended;  /* a watch ended since the request: it may be the requested one */
};

/* No file can be watched unless `is_wanted`. */
void renames_init(struct renames *renames, bool is_wanted);

/*
 * Requests a watch, always on the one thread that is to be signalled. Returns false if that is not possible at present.
 * renames_take_watched() returns the result.
 */
bool renames_watch(struct renames *renames, uint32_t tid, int fd);
void renames_unwatch(const struct renames *renames, struct watched *file);

/*
 * Returns whether there was a result or an event since the last check: the caller then has to call both functions
 * below.
 */
bool renames_any(void);

/* Returns false if there is no result. The watch is NOT_WATCHED if this file cannot be watched. */
bool renames_take_watched(struct renames *renames, struct watched *file);

struct rename {
	int watch; /* NOT_WATCHED: possibly any of them, because events were lost */
	/*
	 * The watch has ended: its file is gone, or renames_unwatch() was called for another descriptor of the file,
	 * which shares the watch.
	 */
	bool has_ended;
};

/* Returns false if there are no more. */
bool renames_next(struct renames *renames, struct rename *rename);

#endif
