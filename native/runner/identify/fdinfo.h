#ifndef KREPLAY_RUNNER_FDINFO_H
#define KREPLAY_RUNNER_FDINFO_H

#include <stdbool.h>
#include <stdint.h>

#define FDINFO_BYTES_MAX 80

/*
 * The content of /proc/TID/fdinfo/FD for the open file behind a descriptor, without its position: flags, mount and
 * inode.
 */
struct fdinfo {
	uint32_t bytes;
	char text[FDINFO_BYTES_MAX];
};

/*
 * Reads the opened fdinfo file, which always shows the current file of the descriptor: seq_show() looks it up in the
 * thread each time (fs/proc/fd.c). Returns false if there is none, or if it has no inode, which it has since 5.14
 * (3845f256a8b5).
 */
bool fdinfo_read(int file, struct fdinfo *info);
/* Returns whether the content is unchanged. */
bool fdinfo_is_still(int file, const struct fdinfo *info);

#endif
