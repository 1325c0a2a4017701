#ifndef KREPLAY_RUNNER_PATH_MAP_H
#define KREPLAY_RUNNER_PATH_MAP_H

#include <stddef.h>

#include "plan/options.h"

/* Translates a path on this machine to its counterpart in production. */
void path_in_production(const char *here, const struct options *options, char *path, size_t path_bytes);

#endif
