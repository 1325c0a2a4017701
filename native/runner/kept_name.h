#ifndef KREPLAY_RUNNER_KEPT_NAME_H
#define KREPLAY_RUNNER_KEPT_NAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "renames.h"

/* Longer ones are asked for at each call. */
#define KEPT_NAME_MAX 256

/*
 * The name of a descriptor's file, for calls in a row. To ask for the name costs an answer 1.9 us, to ask whether the
 * descriptor still stands for the same inode 1.1 (fdinfo), and to be told that the file was renamed nothing (renames).
 *
 * None of these shows that a folder above the file was renamed or mounted elsewhere, that the file was deleted and is
 * still open, that the descriptor now stands for another hard link of it, or in a btrfs subvolume or overlay for
 * another file with its inode number. So the name is asked for again after ten milliseconds, and at each call where
 * calls are a millisecond apart.
 */
struct kept_name {
	uint64_t asked_ns;
	uint64_t known_ns;     /* 0: it is not */
	uint32_t calls;        /* in a row */
	uint32_t before_watch; /* that many calls in a row */
	struct watched file;
	uint32_t bytes;
	char text[KEPT_NAME_MAX];
};

void kept_name_init(struct kept_name *kept);
void kept_name_close(struct kept_name *kept, const struct renames *renames);

/* At each call, before the name is asked for: whether it need not be. */
bool kept_name_recall(struct kept_name *kept, struct renames *renames, uint32_t tid, int fd, uint64_t now_ns);
/* After that, where it was. */
void kept_name_set(struct kept_name *kept, const struct renames *renames, const char *text, size_t bytes);

/* The answer to a watch that was asked for. */
void kept_name_watched(struct kept_name *kept, const struct watched *file);
/* What became of its watch, as in struct rename. */
void kept_name_forget(struct kept_name *kept, const struct renames *renames, bool has_ended);

#endif
