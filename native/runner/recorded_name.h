#ifndef KREPLAY_RUNNER_RECORDED_NAME_H
#define KREPLAY_RUNNER_RECORDED_NAME_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Three bytes for each that is not UTF-8. */
#define RECORDED_NAME_MAX (3 * PATH_MAX)

/* How a recording has a path: bytes that are not UTF-8 are U+FFFD there. False: it is as it was. */
bool recorded_name(const char *path, char name[static RECORDED_NAME_MAX]);

/*
 * Of a path with many folders a recording has the last ones, ".../d/e/f", as many as there was room for. Makes the next
 * shorter such name of it, in place; begins with the whole path. False: there is none.
 */
bool recorded_name_shorten(char name[static RECORDED_NAME_MAX]);

#endif
