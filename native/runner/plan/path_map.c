#include "plan/path_map.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool matches(const char *path, const struct path_map *map)
{
	if (strncmp(path, map->from, map->from_bytes) != 0)
		return false;
	const char next = path[map->from_bytes];
	return next == 0 || next == '/' || map->from[map->from_bytes - 1] == '/';
}

void path_in_production(const char *here, const struct options *options, char *path, size_t path_bytes)
{
	for (size_t i = 0; i < options->map_count; i++) {
		const struct path_map *map = &options->maps[i];

		if (!matches(here, map))
			continue;
		snprintf(path, path_bytes, "%s%s", map->to, here + map->from_bytes);
		return;
	}
	snprintf(path, path_bytes, "%s", here);
}
