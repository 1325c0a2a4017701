#ifndef KREPLAY_RUNNER_KEPT_NAME_H
#define KREPLAY_RUNNER_KEPT_NAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "identify/renames.h"

/* Longer names are not cached. */
#define KEPT_NAME_MAX 256

/*
 * Caches the name of a descriptor's file for consecutive calls. Reading the name costs 1.9 us of an answer. Checking
 * that the descriptor still refers to the same inode costs 1.1 us (fdinfo), and being notified that the file was
 * renamed costs nothing (renames).
 *
 * None of these detects that a directory above the file was renamed or mounted elsewhere, that the file was deleted and
 * is still open, or that the descriptor now refers to another hard link of it, or in a btrfs subvolume or overlay to
 * another file with its inode number. So the name is read again after ten milliseconds, and at each call if calls are a
 * millisecond or more apart.
 */
struct kept_name {
	uint64_t asked_ns;
	uint64_t known_ns;     /* 0: the name is not known */
	uint32_t calls;        /* number of consecutive calls */
	uint32_t before_watch; /* consecutive calls before a watch is requested */
	struct watched file;
	uint32_t bytes;
	char text[KEPT_NAME_MAX];
};

void kept_name_init(struct kept_name *kept);
void kept_name_close(struct kept_name *kept, const struct renames *renames);

/* Called at each call, before the name is read: returns whether the cached name can be used. */
bool kept_name_recall(struct kept_name *kept, struct renames *renames, uint32_t tid, int fd, uint64_t now_ns);
/* Called with the name, if it was read instead. */
void kept_name_set(struct kept_name *kept, const struct renames *renames, const char *text, size_t bytes);

/* Takes the result of a watch that was requested. */
void kept_name_watched(struct kept_name *kept, const struct watched *file);
/* Handles an event of its watch, as in struct rename. */
void kept_name_forget(struct kept_name *kept, const struct renames *renames, bool has_ended);

#endif
