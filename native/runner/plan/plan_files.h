/*
 * Maps a file on this machine to a file of the plan. A file with the same name is that file. Any other name may have
 * been generated for this run, such as a temporary file's: it stands for a file of the plan whose name differs only in
 * numbers or random parts, and that no file here has as its own name. One name stands for each file of the plan, in the
 * order in which both were first used by threads of the same role, as long as there are enough; the names beyond that
 * share the last file.
 */
#ifndef KREPLAY_RUNNER_PLAN_FILES_H
#define KREPLAY_RUNNER_PLAN_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "identify/table.h"
#include "plan/options.h"
#include "plan/plan.h"

struct plan_file {
	char *key;
	uint64_t begins_ns;
	uint32_t next; /* next with the same pattern, by beginning; NONE */
	bool is_named; /* a file here has its name */
	bool is_stood_for;
};

struct plan_file_found {
	const char *key; /* NULL: there is none */
	bool stands_in;  /* the file here has another name */
	bool has_moved;  /* this is the first use of its own name, and another name stood for it until then */
};

struct plan_files {
	const struct options *options;
	struct plan_file *files;
	uint32_t count;
	struct table by_key;
	struct table by_pattern; /* the first file of each pattern */
	struct table stood_for;  /* by the key of a file here */
	struct table roles;      /* of the threads that call on each file */
	struct table sharing;    /* keys of files here that share their file of the plan with another */
};

/* Returns false if there is no memory. */
bool plan_files_make(struct plan_files *files, const struct plan *plan, const struct options *options);
void plan_files_free(struct plan_files *files);

/* Returns the file of the plan that `key` is or stands for; `role`: that of the thread that calls on it. */
struct plan_file_found plan_files_find(struct plan_files *files, const char *key, const char *role);

#endif
