/*
 * Classes of calls: those of one kind to files of one kind. A call to a file that the plan does not have, such as one
 * with a new random name in each run, is treated like the calls of its class: those by threads of its role, or by any
 * thread if none has that role.
 */
#ifndef KREPLAY_RUNNER_CLASSES_H
#define KREPLAY_RUNNER_CLASSES_H

#include "identify/table.h"
#include "plan/size_pools.h"

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
		uint64_t *drawn; /* how often, by class number */
	} levels[CLASS_LEVELS];
};

bool classes_make(struct classes *classes, const struct streams *streams);
void classes_free(struct classes *classes);

/* Draws an event of about this size; the seed decides which. Returns NONE if there are none of that class. */
uint32_t classes_draw(struct classes *classes, const struct class_of *call, uint32_t size, uint64_t seed);

#endif
