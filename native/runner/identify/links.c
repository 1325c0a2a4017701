#include "identify/links.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* A link that is held open takes one fd, so three quarters are left for the runner's other files. */
#define SHARE_OF_FDS 4

/*
 * Distance between the places of one thread's fds. It is odd and the number of places is a power of two, so one thread
 * can use all places.
 */
#define FDS_APART 61u

void links_init(struct links *links)
{
	struct rlimit fds;
	const rlim_t share = getrlimit(RLIMIT_NOFILE, &fds) < 0 ? 0 : fds.rlim_cur / SHARE_OF_FDS;

	*links = (struct links){.room = LINKS_MAX};
	while (links->room > share)
		links->room /= 2;
}

static void forget(struct kept_link *kept)
{
	if (kept->tid != 0 && kept->link != NOT_OPEN)
		close(kept->link);
	kept->tid = 0;
}

void links_close(struct links *links)
{
	for (uint32_t i = 0; i < links->room; i++)
		forget(&links->kept[i]);
}

static void keep(struct kept_link *kept, uint32_t tid, int fd)
{
	forget(kept);
	*kept = (struct kept_link){tid, fd, NOT_OPEN};
}

/* The threads of a pool have consecutive numbers and the same few fds. */
static struct kept_link *place_of(struct links *links, uint32_t tid, int fd)
{
	return links->room ? &links->kept[(tid + fd * FDS_APART) % links->room] : NULL;
}

ssize_t links_read(struct links *links, uint32_t tid, int fd, char *text, size_t text_bytes)
{
	struct kept_link *kept = place_of(links, tid, fd);
	const bool is_known = kept && kept->tid == tid && kept->fd == fd;
	char name[48];

	if (is_known && kept->link != NOT_OPEN) {
		const ssize_t bytes = readlinkat(kept->link, "", text, text_bytes);
		if (bytes > 0)
			return bytes;
	}
	snprintf(name, sizeof(name), "/proc/%u/fd/%d", tid, fd);
	if (is_known && kept->link == NOT_OPEN)
		kept->link = open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (kept && !is_known)
		keep(kept, tid, fd);
	return readlink(name, text, text_bytes);
}
