/*
 * Which file of the plan a file here is. One of the same name is that file. Any other name may have been drawn anew,
 * such as a temporary file's: it stands for a file of the plan whose name differs only in what is counted or drawn, and
 * which no file here is by its own name. Each file of the plan is stood for by one name, in the order in which both
 * were first used, as long as there are enough; the names beyond that share the last one.
 */
#ifndef KREPLAY_RUNNER_PLAN_FILES_H
#define KREPLAY_RUNNER_PLAN_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "plan.h"
#include "table.h"

struct plan_file {
	char *key;
	uint64_t begins_ns;
	uint32_t next; /* with the same pattern, by their beginnings; NONE */
	bool is_named; /* a file here has its name */
	bool is_stood_for;
};

struct plan_file_found {
	const char *key; /* NULL: there is none */
	bool stands_in;  /* the file here has another name */
	bool has_moved;  /* this is the first of its own name, and another that stood for it no longer does */
};

struct plan_files {
	const struct options *options;
	struct plan_file *files;
	uint32_t count;
	struct table by_key;
	struct table by_pattern; /* the first one */
	struct table stood_for;  /* by the key of a file here */
	struct table sharing;    /* keys of files here that stand for a file which another one stands for as well */
};

/* False: no memory. */
bool plan_files_make(struct plan_files *files, const struct plan *plan, const struct options *options);
void plan_files_free(struct plan_files *files);

/* The file of the plan that `key` is or stands for. */
struct plan_file_found plan_files_find(struct plan_files *files, const char *key);

#endif
