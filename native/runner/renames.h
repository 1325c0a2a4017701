#ifndef KREPLAY_RUNNER_RENAMES_H
#define KREPLAY_RUNNER_RENAMES_H

#include <stdbool.h>

#define NOT_WATCHED (-1)

/*
 * Which of some files were renamed or deleted: inotify(7), which sends a signal to the thread that asked. It is pending
 * before the rename returns, so that thread can't receive a later call without having taken it, and as long as none
 * comes there is nothing to ask. While a file is watched its inode number is no other file's.
 *
 * A folder that is renamed above the file, or elsewhere than through this mount, says nothing.
 */
struct renames {
	bool is_asked_for;
	int inotify; /* -1: it can't be had */
};

/* On the thread that is to be told. The number that renames_next() gives then; NOT_WATCHED: that can't be. */
int renames_watch(struct renames *renames, const char *path);
void renames_unwatch(const struct renames *renames, int watch);
void renames_close(struct renames *renames);

/* Since this was last asked: then renames_next() is to be, until there are no more. */
bool renames_any(void);

struct rename {
	int watch;      /* NOT_WATCHED: all of them, as some of what happened was lost */
	bool has_ended; /* its watch has: the file is deleted */
};

bool renames_next(const struct renames *renames, struct rename *rename);

#endif
