#include "match/classes.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "identify/keys.h"
#include "plan/streams.h"

struct key {
	uint32_t is_sync;
	uint32_t path_kind;
	char role[KEY_MAX];
};

static size_t make_key(struct key *key, const struct class_of *class, enum class_level level)
{
	*key = (struct key){.is_sync = class->is_sync, .path_kind = class->path_kind};
	if (level == CLASS_OF_ROLE)
		strncpy(key->role, class->role, KEY_MAX - 1);
	return offsetof(struct key, role) + strlen(key->role);
}

static uint32_t number_of_stream(struct class_pools *pools, const struct streams *streams, const struct stream *stream,
				 enum class_level level)
{
	const struct group *group = &streams->groups[stream->group];
	const struct class_of class = {group->is_sync, group->path_kind, stream->role};
	struct key key;
	const size_t key_bytes = make_key(&key, &class, level);
	const uint32_t known = table_get(&pools->number_by_class, &key, key_bytes);
	const uint32_t next = pools->number_by_class.count;

	if (known != NOT_IN_TABLE)
		return known;
	return table_put(&pools->number_by_class, &key, key_bytes, next) ? next : NONE;
}

static bool make_level(struct class_pools *pools, const struct streams *streams, enum class_level level,
		       uint32_t *number_of)
{
	for (uint32_t i = 0; i < streams->stream_count; i++) {
		number_of[i] = number_of_stream(pools, streams, &streams->streams[i], level);
		if (number_of[i] == NONE)
			return false;
	}
	const uint32_t count = pools->number_by_class.count;
	pools->drawn = calloc(count + 1ul, sizeof(*pools->drawn));
	/*
	 * An event that a rule chose by its path applies to no other file, and one chosen by its thread to no other
	 * role.
	 */
	const uint16_t left_out = EVENT_FLAG_RULED_BY_PATH | (level == CLASS_OF_ROLE ? 0 : EVENT_FLAG_RULED_BY_THREAD);
	return pools->drawn && size_pools_make(&pools->sizes, streams, number_of, count, left_out);
}

bool classes_make(struct classes *classes, const struct streams *streams)
{
	uint32_t *number_of = malloc((streams->stream_count + 1ul) * sizeof(*number_of));
	bool is_made = number_of != NULL;

	*classes = (struct classes){0};
	for (enum class_level level = 0; level < CLASS_LEVELS && is_made; level++)
		is_made = make_level(&classes->levels[level], streams, level, number_of);
	free(number_of);
	return is_made;
}

void classes_free(struct classes *classes)
{
	for (enum class_level level = 0; level < CLASS_LEVELS; level++) {
		table_clear(&classes->levels[level].number_by_class);
		size_pools_free(&classes->levels[level].sizes);
		free(classes->levels[level].drawn);
	}
}

uint32_t classes_draw(struct classes *classes, const struct class_of *call, uint32_t size, uint64_t seed)
{
	for (enum class_level level = 0; level < CLASS_LEVELS; level++) {
		struct class_pools *pools = &classes->levels[level];
		struct key key;
		const size_t key_bytes = make_key(&key, call, level);
		const uint32_t number = table_get(&pools->number_by_class, &key, key_bytes);

		if (number == NOT_IN_TABLE)
			continue;
		/* No stream has the number NONE, so these draws are independent of those from streams. */
		const uint64_t where = (uint64_t)NONE << 32 | (number * CLASS_LEVELS + level);
		const uint64_t hash = hash_numbers(seed, where, pools->drawn[number]++);
		const uint32_t event = size_pools_event(&pools->sizes, number, size, hash);
		if (event != NONE)
			return event;
	}
	return NONE;
}
