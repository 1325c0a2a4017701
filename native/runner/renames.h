#ifndef KREPLAY_RUNNER_RENAMES_H
#define KREPLAY_RUNNER_RENAMES_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fdinfo.h"

#define NOT_OPEN (-1)
#define NOT_WATCHED (-1)

/* The file that a descriptor of the build stands for. */
struct watched {
	uint32_t tid;
	int fd;
	int watch;          /* as rename.watch */
	int info;           /* /proc/TID/fdinfo/FD */
	struct fdinfo told; /* of the file that is watched */
};

/*
 * Which of some files were renamed: inotify(7), which sends a signal to the thread that asked. It is pending before the
 * rename returns, so that thread can't receive a later call without having taken it, and as long as none comes there is
 * nothing to ask. While a file is watched its inode number is no other file's, but a watch holds neither the file
 * system nor the room of a deleted file: it ends with them, which is told too.
 *
 * Nothing is told of a folder that is renamed above the file, nor of what other machines do to it.
 *
 * A thread of its own begins watches: the kernel asks the file system for leave, and that may be the build itself
 * (FUSE), which would wait for us.
 *
 * One at a time: a signal handler is given nothing of its own.
 */
struct renames {
	enum { NOT_STARTED, NONE_TO_HAVE, IDLE, ASKED, ANSWERED } _Atomic state;
	int inotify; /* NOT_OPEN */
	sem_t asked;
	struct watched file; /* asked for, and the answer */
	bool has_any_ended;  /* a watch, since this was asked for: maybe it was its own */
};

/* Not wanted: no file can be watched. */
void renames_init(struct renames *renames, bool is_wanted);

/* Always on the one thread that is to be told. False: not now. The answer comes by renames_take_watched(). */
bool renames_watch(struct renames *renames, uint32_t tid, int fd);
void renames_unwatch(const struct renames *renames, struct watched *file);

/* Whether anything was answered or happened since this was last asked: then both that follow are to be. */
bool renames_any(void);

/* False: nothing was answered. NOT_WATCHED: this file can't be. */
bool renames_take_watched(struct renames *renames, struct watched *file);

struct rename {
	int watch; /* NOT_WATCHED: maybe any of them, as some of what happened was lost */
	/*
	 * The watch has: its file is gone, or renames_unwatch() was called for another descriptor of this file, which
	 * has the same watch.
	 */
	bool has_ended;
};

/* False: there are no more. */
bool renames_next(struct renames *renames, struct rename *rename);

#endif
