#ifndef KREPLAY_RUNNER_RECORDED_NAME_H
#define KREPLAY_RUNNER_RECORDED_NAME_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Each byte that is not UTF-8 becomes three. */
#define RECORDED_NAME_MAX (3 * PATH_MAX)

/*
 * Converts a path to its form in a recording, where bytes that are not UTF-8 are U+FFFD. Returns false if it is
 * unchanged.
 */
bool recorded_name(const char *path, char name[static RECORDED_NAME_MAX]);

/*
 * A recording has only the last directories of a long path, ".../d/e/f", as many as there was room for. This replaces
 * the name, at first the whole path, by the next shorter such name; it returns false if there is none.
 */
bool recorded_name_shorten(char name[static RECORDED_NAME_MAX]);

#endif
