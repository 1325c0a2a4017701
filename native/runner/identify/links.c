#include "identify/links.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A cached link takes two fds, so three quarters are left for the runner's other files. */
#define SHARE_OF_FDS 8
/* With fewer links, the resources for caching names are better left to others. */
#define KEEPS_NAMES_FROM 16

/*
 * Distance between the places of one thread's fds. It is odd and the number of places is a power of two, so one thread
 * can use all places.
 */
#define FDS_APART 61u

void links_init(struct links *links, bool keeps_names)
{
	struct rlimit fds;
	const rlim_t share = getrlimit(RLIMIT_NOFILE, &fds) < 0 ? 0 : fds.rlim_cur / SHARE_OF_FDS;

	*links = (struct links){.room = LINKS_MAX};
	while (links->room > share)
		links->room /= 2;
	renames_init(&links->renames, keeps_names && links->room >= KEEPS_NAMES_FROM);
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
}

static void keep(struct links *links, struct kept_link *kept, uint32_t tid, int fd)
{
	forget(links, kept);
	kept->tid = tid;
	kept->fd = fd;
	kept->link = NOT_OPEN;
	kept_name_init(&kept->name);
}

/* The threads of a pool have consecutive numbers and the same few fds. */
static struct kept_link *place_of(struct links *links, uint32_t tid, int fd)
{
	return links->room ? &links->kept[(tid + fd * FDS_APART) % links->room] : NULL;
}

static void take_watched(struct links *links)
{
	struct watched file;

	if (!renames_take_watched(&links->renames, &file))
		return;
	struct kept_link *kept = place_of(links, file.tid, file.fd);
	if (kept->tid == file.tid && kept->fd == file.fd)
		kept_name_watched(&kept->name, &file);
	else
		renames_unwatch(&links->renames, &file);
}

static void forget_renamed(struct links *links, const struct rename *rename)
{
	for (uint32_t i = 0; i < links->room; i++) {
		struct kept_link *kept = &links->kept[i];

		if (kept->tid != 0 && (rename->watch == NOT_WATCHED || rename->watch == kept->name.file.watch))
			kept_name_forget(&kept->name, &links->renames, rename->has_ended);
	}
}

static void take_news(struct links *links)
{
	struct rename rename;

	take_watched(links);
	while (renames_next(&links->renames, &rename))
		forget_renamed(links, &rename);
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
	struct kept_link *kept = place_of(links, tid, fd);
	const bool is_known = kept && kept->tid == tid && kept->fd == fd;

	if (renames_any())
		take_news(links);
	if (kept && !is_known)
		keep(links, kept, tid, fd);
	if (kept && kept_name_recall(&kept->name, &links->renames, tid, fd, now_ns)) {
		const size_t bytes = kept->name.bytes < text_bytes ? kept->name.bytes : text_bytes;

		memcpy(text, kept->name.text, bytes);
		return bytes;
	}
	const ssize_t bytes = read_link(kept, is_known, tid, fd, text, text_bytes);
	if (kept && bytes > 0)
		kept_name_set(&kept->name, &links->renames, text, bytes);
	return bytes;
}
