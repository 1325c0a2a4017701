#include "plan/plan_files.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "identify/keys.h"

static uint32_t find(const struct table *table, const char *text)
{
	return table_get(table, text, strlen(text));
}

static bool put(struct table *table, const char *text, uint32_t number)
{
	return table_put(table, text, strlen(text), number);
}

/*
 * Uses the same condition as the look-up of calls: the path. The recording also contains directories, which have no
 * kind of their own.
 */
static bool is_of_a_file(const struct plan *plan, const struct plan_stream *stream)
{
	if (stream->path_kind == PATH_KIND_UNKNOWN)
		return *plan_string(plan, stream->path) == '/';
	return stream->path_kind == PATH_KIND_REGULAR || stream->path_kind == PATH_KIND_DEVICE;
}

static uint64_t beginning_of(const struct plan *plan, const struct plan_stream *stream)
{
	uint64_t begins_ns = UINT64_MAX;

	for (uint32_t i = 0; i < stream->slot_count; i++) {
		const struct plan_slot *slot = &plan->slots[stream->first_slot + i];

		if (slot->event_count > 0 && plan->events[slot->first_event].offset_ns < begins_ns)
			begins_ns = plan->events[slot->first_event].offset_ns;
	}
	return begins_ns;
}

/* A key of roles: the file, and the role of a thread that calls on it. */
struct role_of_file {
	uint32_t file;
	char role[KEY_MAX];
};

static size_t role_bytes(const struct role_of_file *role)
{
	return offsetof(struct role_of_file, role) + strlen(role->role);
}

static bool add_roles(struct plan_files *files, const struct plan *plan, const struct plan_stream *stream)
{
	struct role_of_file role = {0};
	char key[KEY_MAX];

	key_of_file(stream->path_kind, plan_string(plan, stream->path), key);
	role.file = find(&files->by_key, key);
	for (uint32_t i = 0; i < stream->slot_count; i++) {
		key_of_comm(plan_string(plan, plan->slots[stream->first_slot + i].comm), role.role);
		if (!table_put(&files->roles, &role, role_bytes(&role), 0))
			return false;
	}
	return true;
}

static bool has_role(const struct plan_files *files, uint32_t file, const char *name)
{
	struct role_of_file role = {.file = file};

	strncpy(role.role, name, KEY_MAX - 1);
	return table_get(&files->roles, &role, role_bytes(&role)) != NOT_IN_TABLE;
}

static bool add(struct plan_files *files, const struct plan *plan, const struct plan_stream *stream)
{
	char key[KEY_MAX];

	key_of_file(stream->path_kind, plan_string(plan, stream->path), key);
	const uint64_t begins_ns = beginning_of(plan, stream);
	const uint32_t known = find(&files->by_key, key);
	if (known != NOT_IN_TABLE) {
		if (begins_ns < files->files[known].begins_ns)
			files->files[known].begins_ns = begins_ns;
		return true;
	}
	files->files[files->count] = (struct plan_file){.key = strdup(key), .begins_ns = begins_ns, .next = NONE};
	return files->files[files->count++].key && put(&files->by_key, key, files->count - 1);
}

static int by_beginning(const void *left, const void *right)
{
	const struct plan_file *a = left, *b = right;

	if (a->begins_ns != b->begins_ns)
		return a->begins_ns < b->begins_ns ? -1 : 1;
	return strcmp(a->key, b->key);
}

/* Goes from the last to the first, so that each file is inserted before those that begin later. */
static bool link_patterns(struct plan_files *files)
{
	qsort(files->files, files->count, sizeof(*files->files), by_beginning);
	for (uint32_t i = files->count; i-- > 0;) {
		char pattern[KEY_MAX];

		if (!put(&files->by_key, files->files[i].key, i))
			return false;
		if (key_may_be_cut(files->files[i].key))
			continue;
		pattern_of_path(files->files[i].key, pattern);
		files->files[i].next = find(&files->by_pattern, pattern);
		if (!put(&files->by_pattern, pattern, i))
			return false;
	}
	return true;
}

bool plan_files_make(struct plan_files *files, const struct plan *plan, const struct options *options)
{
	*files = (struct plan_files){
	    .options = options,
	    .files = calloc(plan->header->stream_count + 1ul, sizeof(*files->files)),
	};
	if (!files->files)
		return false;
	for (uint32_t i = 0; i < plan->header->stream_count; i++)
		if (is_of_a_file(plan, &plan->streams[i]) && !add(files, plan, &plan->streams[i]))
			return false;
	if (!link_patterns(files))
		return false;
	for (uint32_t i = 0; i < plan->header->stream_count; i++)
		if (is_of_a_file(plan, &plan->streams[i]) && !add_roles(files, plan, &plan->streams[i]))
			return false;
	return true;
}

void plan_files_free(struct plan_files *files)
{
	for (uint32_t i = 0; i < files->count; i++)
		free(files->files[i].key);
	free(files->files);
	table_clear(&files->by_key);
	table_clear(&files->by_pattern);
	table_clear(&files->stood_for);
	table_clear(&files->sharing);
	table_clear(&files->roles);
}

/*
 * Returns whether every rule with a path matches both or neither: a rule's delay must not reach a call that it does not
 * match.
 */
static bool has_same_rules(const struct options *options, const char *a, const char *b)
{
	for (size_t i = 0; i < options->rule_path_count; i++)
		if ((fnmatch(options->rule_paths[i], a, 0) == 0) != (fnmatch(options->rule_paths[i], b, 0) == 0))
			return false;
	return true;
}

/*
 * Prefers a file that no name stands for yet, and of these one that threads of the role call on; otherwise takes the
 * last one, because more files are used here.
 */
static uint32_t choose(const struct plan_files *files, const char *key, const char *role)
{
	uint32_t free = NONE, last = NONE;
	char pattern[KEY_MAX];

	/* A truncated name may lack its random parts, and rules cannot be matched against it. */
	if (key_may_be_cut(key))
		return NONE;
	pattern_of_path(key, pattern);
	for (uint32_t i = find(&files->by_pattern, pattern); i != NONE; i = files->files[i].next) {
		const struct plan_file *file = &files->files[i];

		if (file->is_named || !has_same_rules(files->options, file->key, key))
			continue;
		last = i;
		if (file->is_stood_for)
			continue;
		if (has_role(files, i, role))
			return i;
		if (free == NONE)
			free = i;
	}
	return free != NONE ? free : last;
}

struct plan_file_found plan_files_find(struct plan_files *files, const char *key, const char *role)
{
	uint32_t index = find(&files->by_key, key);

	if (index != NOT_IN_TABLE) {
		struct plan_file *file = &files->files[index];
		const bool has_moved = !file->is_named && file->is_stood_for;

		file->is_named = true;
		return (struct plan_file_found){file->key, false, has_moved};
	}
	index = find(&files->stood_for, key);
	if (index == NOT_IN_TABLE || files->files[index].is_named) {
		index = choose(files, key, role);
		if (index == NONE)
			return (struct plan_file_found){NULL, false, false};
		if (files->files[index].is_stood_for)
			put(&files->sharing, key, index);
		files->files[index].is_stood_for = true;
		put(&files->stood_for, key, index);
	}
	return (struct plan_file_found){files->files[index].key, true, false};
}
