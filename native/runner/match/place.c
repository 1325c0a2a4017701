#include "match/place.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "identify/keys.h"
#include "identify/observe.h"
#include "identify/recorded_name.h"
#include "match/replay.h"

#define NAMES_KNOWN_MAX 4096
#define STANDARD_FD_MAX 2

/* The class of a call and who makes it. */
struct caller {
	bool is_sync;
	const char *role;
};

/* A key of place_by_name: a file's name from /proc, without a terminating zero, after the other parts of the key. */
struct seen {
	char before[2];
	char name[PATH_MAX];
};

/*
 * Gives a file of the plan the events back that calls on other names have used: these names may no longer stand for it.
 */
static void give_back(struct replay *replay, const char *key)
{
	const uint32_t groups[] = {streams_group(replay->streams, false, key),
				   streams_group(replay->streams, true, key)};

	for (unsigned i = 0; i < 2; i++)
		if (groups[i] != NONE)
			matcher_give_back(&replay->matcher, groups[i]);
	table_clear(&replay->place_by_name);
}

/* Returns the group of the plan's file that this file is, or stands for. */
static uint32_t group_of_file(struct replay *replay, const struct caller *caller, const char *key, bool *stands_in)
{
	const struct plan_file_found found = plan_files_find(&replay->files, key, caller->role);

	if (found.has_moved)
		give_back(replay, found.key);
	atomic_store(&replay->uncovered[UNCOVERED_SHARED_NAME], replay->files.sharing.count);
	*stands_in = found.stands_in;
	return found.key ? streams_group(replay->streams, caller->is_sync, found.key) : NONE;
}

static bool is_terminal(const char *path)
{
	return strncmp(path, "/dev/pts/", strlen("/dev/pts/")) == 0 ||
	       strncmp(path, "/dev/tty", strlen("/dev/tty")) == 0 || strcmp(path, "/dev/console") == 0;
}

static struct place place_of_path(struct replay *replay, const struct caller *caller, int fd, const char *path,
				  uint32_t kind)
{
	char key[KEY_MAX];
	bool stands_in = false;

	const bool is_file = kind == PATH_KIND_REGULAR || (kind == PATH_KIND_DEVICE && !is_terminal(path));
	if (fd <= STANDARD_FD_MAX && !is_file) {
		kind = PATH_KIND_STD;
		/* The output of a build is not what the incident was about, unless it was recorded as such. */
		snprintf(key, sizeof(key), "std:%d", fd);
	} else {
		key_of_file(kind, path, key);
	}
	uint32_t group = streams_group(replay->streams, caller->is_sync, key);
	if (kind == PATH_KIND_REGULAR || kind == PATH_KIND_DEVICE)
		group = group_of_file(replay, caller, key, &stands_in);
	return (struct place){.group = group, .path_kind = kind, .stands_in = stands_in};
}

/* Encodes a place for place_by_name, including that the file is not in the plan. */
static uint32_t number_of_place(struct place place)
{
	return place.group == NONE ? place.path_kind : PATH_KIND_COUNT + (place.group << 1 | place.stands_in);
}

static struct place place_of_number(const struct streams *streams, uint32_t number)
{
	if (number < PATH_KIND_COUNT)
		return (struct place){.group = NONE, .path_kind = number};
	const uint32_t group = (number - PATH_KIND_COUNT) >> 1;
	return (struct place){
	    .group = group,
	    .path_kind = streams->groups[group].path_kind,
	    .stands_in = (number - PATH_KIND_COUNT) & 1,
	};
}

/* Returns whether a name that may stand for several files has already stood for another one. */
static bool is_unclear(struct replay *replay, const char *name, const char *path)
{
	const uint32_t file = hash_bytes(path, strlen(path)) & INT32_MAX;
	const uint32_t known = table_get(&replay->file_by_unsure_name, name, strlen(name));

	if (known == NOT_IN_TABLE)
		table_put(&replay->file_by_unsure_name, name, strlen(name), file);
	if (known == NOT_IN_TABLE || known == file)
		return false;
	table_put(&replay->unclear_files, path, strlen(path), file);
	atomic_store(&replay->uncovered[UNCOVERED_UNCLEAR_NAME], replay->unclear_files.count);
	return true;
}

/* Finds the place of a file by its recorded name, which may be incomplete. */
static struct place place_as_recorded(struct replay *replay, const struct caller *caller, int fd, const char *path)
{
	const uint32_t kind = path_kind_of(path);
	char name[RECORDED_NAME_MAX];
	bool is_unsure = recorded_name(path, name);
	struct place place = place_of_path(replay, caller, fd, name, kind);

	while (place.group == NONE && kind == PATH_KIND_REGULAR && replay->streams->has_cut_paths &&
	       recorded_name_shorten(name)) {
		place = place_of_path(replay, caller, fd, name, kind);
		is_unsure = true;
	}
	if (place.group != NONE && is_unsure && is_unclear(replay, name, path))
		return (struct place){.group = NONE, .path_kind = kind};
	return place;
}

/* Keeps the name of a file that the plan does not have: the file may be one of the plan, in another folder. */
static void note_elsewhere(struct replay *replay, const char *name)
{
	const uint32_t count = replay->elsewhere_count;

	if (count == ELSEWHERE_MAX || table_get(&replay->place_of_elsewhere, name, strlen(name)) != NOT_IN_TABLE)
		return;
	replay->elsewhere[count] = strdup(name);
	if (replay->elsewhere[count] && table_put(&replay->place_of_elsewhere, name, strlen(name), count))
		replay->elsewhere_count++;
}

/* Caches places by name, because mapping the path to production, computing its keys and looking them up cost more. */
static struct place place_of_file(struct replay *replay, const struct caller *caller, int fd, struct seen *seen,
				  size_t name_bytes)
{
	char path[PATH_MAX];

	seen->before[0] = caller->is_sync ? 's' : 'w';
	seen->before[1] = fd <= STANDARD_FD_MAX ? '0' + fd : '-';
	const size_t bytes = offsetof(struct seen, name) + name_bytes;
	const uint32_t known = table_get(&replay->place_by_name, seen, bytes);
	if (known != NOT_IN_TABLE)
		return place_of_number(replay->streams, known);
	seen->name[name_bytes] = 0;
	path_in_production(seen->name, replay->options, path, sizeof(path));
	const struct place place = place_as_recorded(replay, caller, fd, path);
	if (place.group == NONE && place.path_kind == PATH_KIND_REGULAR)
		note_elsewhere(replay, seen->name);
	if (replay->place_by_name.count >= NAMES_KNOWN_MAX)
		table_clear(&replay->place_by_name);
	table_put(&replay->place_by_name, seen, bytes, number_of_place(place));
	return place;
}

/*
 * Finds the place of a call without a descriptor. Recorded msyncs have no file, so any msync is one of them. Only if
 * there are none is it a sync of its mapping's file, like other syncs.
 */
static struct place place_without_fd(struct replay *replay, const struct caller *caller, uint32_t tid, unsigned op,
				     uint64_t address)
{
	const struct streams *streams = replay->streams;
	struct place place = {
	    .group = op == OP_MSYNC ? streams_group_of_msyncs(streams) : streams_group(streams, true, ""),
	    .path_kind = PATH_KIND_UNKNOWN,
	    .is_unseen = true,
	};
	struct seen seen;

	if (place.group != NONE || op != OP_MSYNC)
		return place;
	const ssize_t bytes = observe_mapped(tid, address, seen.name, sizeof(seen.name) - 1);
	if (bytes > 0)
		return place_of_file(replay, caller, STANDARD_FD_MAX + 1, &seen, bytes);
	const uint32_t without_file = streams_group(streams, true, "");
	if (without_file != NONE && streams->groups[without_file].all_flags & EVENT_FLAG_DERIVED)
		place.group = without_file;
	return place;
}

static struct place place_of_fd(struct replay *replay, const struct seccomp_notif *notif, const struct caller *caller)
{
	const int fd = notif->data.args[0];
	struct seen seen;
	const ssize_t bytes = links_read(&replay->links, notif->pid, fd, seen.name, sizeof(seen.name) - 1);

	if (bytes > 0)
		return place_of_file(replay, caller, fd, &seen, bytes);
	/* ENOENT means that the descriptor is not open: the call fails in the kernel. */
	return (struct place){
	    .group = NONE,
	    .path_kind = bytes < 0 && errno == ENOENT ? NONE : PATH_KIND_UNKNOWN,
	    .is_unseen = bytes >= 0 || errno != ENOENT,
	};
}

struct place place_find(struct replay *replay, const struct seccomp_notif *notif, const char *role, unsigned op)
{
	const struct caller caller = {op_is_sync(op), role};
	const bool has_fd = op_has_fd(op);
	struct place place = has_fd ? place_of_fd(replay, notif, &caller)
				    : place_without_fd(replay, &caller, notif->pid, op, notif->data.args[0]);

	if (place.group != NONE || !place.is_unseen)
		return place;
	place.group = streams_group_of_role(replay->streams, caller.is_sync, has_fd, role);
	place.is_guessed = true;
	return place;
}

bool place_is_output(struct replay *replay, const struct seccomp_notif *notif, const char *role, unsigned op)
{
	const uint32_t fd = notif->data.args[0];

	if (fd > STANDARD_FD_MAX || !op_has_fd(op) || replay->has_standard_fds)
		return false;
	const struct caller caller = {op_is_sync(op), role};
	return place_of_fd(replay, notif, &caller).group == NONE;
}
