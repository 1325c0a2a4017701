/*
 * Calls of one kind to files of one kind. What goes to a file that the plan does not have, such as one whose name is
 * drawn anew each time, is taken to be like these: by threads of its role, or by any where none has that role.
 */
#ifndef KREPLAY_RUNNER_CLASSES_H
#define KREPLAY_RUNNER_CLASSES_H

#include "size_pools.h"
#include "table.h"

struct class_of {
	bool is_sync;
	uint32_t path_kind; /* PATH_KIND_* */
	const char *role;
};

enum class_level { CLASS_OF_ROLE, CLASS_OF_ANY, CLASS_LEVELS };

struct classes {
	struct class_pools {
		struct table number_by_class;
		struct size_pools sizes;
		uint64_t *drawn; /* times, by number */
	} levels[CLASS_LEVELS];
};

bool classes_make(struct classes *classes, const struct streams *streams);
void classes_free(struct classes *classes);

/* An event about as large, the seed decides which. NONE: there are none of that kind. */
uint32_t classes_draw(struct classes *classes, const struct class_of *call, uint32_t size, uint64_t seed);

#endif
