#ifndef KREPLAY_RUNNER_FDINFO_H
#define KREPLAY_RUNNER_FDINFO_H

#include <stdbool.h>
#include <stdint.h>

#define FDINFO_BYTES_MAX 80

/* What /proc/TID/fdinfo/FD says of the open file behind a descriptor, without its position: flags, mount and inode. */
struct fdinfo {
	uint32_t bytes;
	char text[FDINFO_BYTES_MAX];
};

/*
 * From the opened file, which says what the descriptor stands for now: seq_show() looks it up in the thread each time
 * (fs/proc/fd.c). False: nothing, or no inode is told: it is since 5.14 (3845f256a8b5).
 */
bool fdinfo_read(int file, struct fdinfo *info);
/* Whether the same would be read. */
bool fdinfo_is_still(int file, const struct fdinfo *info);

#endif
