#ifndef KREPLAY_RUNNER_LINKS_H
#define KREPLAY_RUNNER_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kept_name.h"
#include "renames.h"

/* A power of two. */
#define LINKS_MAX 256

/* tid 0: none. */
struct kept_link {
	uint32_t tid;
	int fd;
	int link; /* NOT_OPEN: only read once yet */
	struct kept_name name;
};

/*
 * /proc/TID/fd/FD of the build, those that are read again held open: no path is walked then, which is 1.3 us instead of
 * 2.4. What is read is what the fd stands for now: proc_fd_link() looks it up in the thread each time (fs/proc/fd.c),
 * and of a thread that has ended, whoever has its number now, there is nothing to read.
 */
struct links {
	struct kept_link kept[LINKS_MAX];
	uint32_t room;
	struct renames renames;
};

/* One that keeps names has a thread, and can't be closed. */
void links_init(struct links *links, bool keeps_names);
void links_close(struct links *links);

/* As readlink(2) of the link, or a name that is kept (kept_name.h). Always on the same thread. */
ssize_t links_read(struct links *links, uint32_t tid, int fd, uint64_t now_ns, char *text, size_t text_bytes);

#endif
