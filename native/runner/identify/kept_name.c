#include "identify/kept_name.h"

#include <string.h>

#include "delay/clock.h"

/* Calls further apart are not consecutive: the cost of reading the name does not matter then. */
#define IN_A_ROW_NS NS_PER_MS
/*
 * Names are valid for much longer than IN_A_ROW_NS: otherwise, the check that the file is the same would only add to
 * the cost of reading the name.
 */
#define NAME_AGE_MAX_NS (10 * NS_PER_MS)
/* Watching a file costs as much as reading its name ten times. */
#define BEFORE_WATCH_MIN 16
#define BEFORE_WATCH_MAX 1024

void kept_name_init(struct kept_name *kept)
{
	kept->asked_ns = kept->known_ns = 0;
	kept->calls = 0;
	kept->before_watch = BEFORE_WATCH_MIN;
	kept->file.watch = NOT_WATCHED;
	kept->file.info = NOT_OPEN;
}

static void unwatch(struct kept_name *kept, const struct renames *renames, uint32_t before_watch)
{
	renames_unwatch(renames, &kept->file);
	kept->known_ns = 0;
	kept->calls = 0;
	kept->before_watch = before_watch;
}

void kept_name_close(struct kept_name *kept, const struct renames *renames)
{
	unwatch(kept, renames, BEFORE_WATCH_MIN);
}

void kept_name_watched(struct kept_name *kept, const struct watched *file)
{
	kept->file = *file;
	kept->known_ns = 0;
	kept->calls = 0;
	if (file->watch == NOT_WATCHED)
		kept->before_watch = BEFORE_WATCH_MAX;
}

/*
 * Returns how many calls come before the next watch: twice as many each time that a watch was not worth it, because the
 * descriptor soon referred to another file.
 */
static uint32_t next_before_watch(const struct kept_name *kept)
{
	if (kept->calls > kept->before_watch)
		return BEFORE_WATCH_MIN;
	return kept->before_watch < BEFORE_WATCH_MAX ? kept->before_watch * 2 : BEFORE_WATCH_MAX;
}

/* Returns whether the call is consecutive. */
static bool note_call(struct kept_name *kept, uint64_t now_ns)
{
	const bool is_next = now_ns - kept->asked_ns < IN_A_ROW_NS;

	kept->asked_ns = now_ns;
	kept->calls = is_next ? kept->calls + 1 : 0;
	return is_next;
}

bool kept_name_recall(struct kept_name *kept, struct renames *renames, uint32_t tid, int fd, uint64_t now_ns)
{
	if (!note_call(kept, now_ns))
		return false;
	if (kept->file.watch == NOT_WATCHED) {
		if (kept->calls >= kept->before_watch)
			renames_watch(renames, tid, fd);
		return false;
	}
	if (!fdinfo_is_still(kept->file.info, &kept->file.told)) {
		unwatch(kept, renames, next_before_watch(kept));
		return false;
	}
	return kept->known_ns != 0 && now_ns - kept->known_ns < NAME_AGE_MAX_NS;
}

void kept_name_set(struct kept_name *kept, const struct renames *renames, const char *text, size_t bytes)
{
	if (kept->file.watch == NOT_WATCHED)
		return;
	if (bytes > sizeof(kept->text)) {
		unwatch(kept, renames, BEFORE_WATCH_MAX);
		return;
	}
	memcpy(kept->text, text, bytes);
	kept->bytes = bytes;
	kept->known_ns = kept->asked_ns;
}

void kept_name_forget(struct kept_name *kept, const struct renames *renames, bool has_ended)
{
	kept->known_ns = 0;
	if (has_ended)
		unwatch(kept, renames, BEFORE_WATCH_MIN);
}
