#include "links.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Two for each that is kept; half is for what else the runner opens. */
#define SHARE_OF_FDS 4

/* Of one thread; no divisor of LINKS_MAX, so that a thread with many has places for them. */
#define FDS_APART 61u

void links_init(struct links *links)
{
	struct rlimit fds;
	const rlim_t share = getrlimit(RLIMIT_NOFILE, &fds) < 0 ? 0 : fds.rlim_cur / SHARE_OF_FDS;

	*links = (struct links){.room = share < LINKS_MAX ? share : LINKS_MAX};
}

static void forget(struct links *links, struct kept_link *kept)
{
	if (kept->tid == 0)
		return;
	kept_name_close(&kept->name, &links->renames);
	if (kept->link != NOT_OPEN)
		close(kept->link);
	kept->tid = 0;
}

void links_close(struct links *links)
{
	for (uint32_t i = 0; i < links->room; i++)
		forget(links, &links->kept[i]);
	renames_close(&links->renames);
}

static void keep(struct links *links, struct kept_link *kept, uint32_t tid, int fd)
{
	forget(links, kept);
	kept->tid = tid;
	kept->fd = fd;
	kept->link = NOT_OPEN;
	kept_name_init(&kept->name);
}

static void forget_renamed(struct links *links)
{
	struct rename rename;

	while (renames_next(&links->renames, &rename))
		for (uint32_t i = 0; i < links->room; i++) {
			struct kept_link *kept = &links->kept[i];

			if (kept->tid != 0 && (rename.watch == NOT_WATCHED || rename.watch == kept->name.watch))
				kept_name_forget(&kept->name, rename.has_ended);
		}
}

static ssize_t read_link(struct kept_link *kept, bool is_known, uint32_t tid, int fd, char *text, size_t text_bytes)
{
	char name[48];

	if (is_known && kept->link != NOT_OPEN) {
		const ssize_t bytes = readlinkat(kept->link, "", text, text_bytes);
		if (bytes > 0)
			return bytes;
	}
	snprintf(name, sizeof(name), "/proc/%u/fd/%d", tid, fd);
	if (is_known && kept->link == NOT_OPEN)
		kept->link = open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return readlink(name, text, text_bytes);
}

ssize_t links_read(struct links *links, uint32_t tid, int fd, uint64_t now_ns, char *text, size_t text_bytes)
{
	/* Threads of a pool have numbers in a row, and the same few fds. */
	struct kept_link *kept = links->room ? &links->kept[(tid + fd * FDS_APART) % links->room] : NULL;
	const bool is_known = kept && kept->tid == tid && kept->fd == fd;

	if (renames_any())
		forget_renamed(links);
	if (kept && !is_known)
		keep(links, kept, tid, fd);
	if (kept && kept_name_is_known(&kept->name, &links->renames, tid, fd, now_ns)) {
		memcpy(text, kept->name.name, kept->name.bytes);
		return kept->name.bytes;
	}
	const ssize_t bytes = read_link(kept, is_known, tid, fd, text, text_bytes);
	if (kept && bytes > 0)
		kept_name_set(&kept->name, &links->renames, text, bytes);
	return bytes;
}
