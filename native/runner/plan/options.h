#ifndef KREPLAY_RUNNER_OPTIONS_H
#define KREPLAY_RUNNER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/failure.h"

#define PATH_MAPS_MAX 64
#define RULE_PATHS_MAX 256
#define SPIN_CHOSEN_BY_CPUS UINT64_MAX

enum mode { MODE_AUTO, MODE_ALIGN, MODE_ORDINAL, MODE_DIST, MODE_STALL };

/* A path prefix on this machine, and its counterpart in production. */
struct path_map {
	const char *from;
	size_t from_bytes;
	const char *to;
};

struct options {
	bool help;
	bool probe;
	const char *plan;
	const char *report;
	const char *tails; /* NULL: the command has all outputs as they are */
	int control_fd;    /* -1: none */
	uint64_t spin_ns;
	uint64_t threshold_ns;
	enum mode mode;
	bool has_seed;
	uint64_t seed;
	bool draws_by_class; /* for files that the plan does not have */
	bool deny_io_uring;
	uint64_t linger_ns;
	struct path_map maps[PATH_MAPS_MAX];
	size_t map_count;
	const char *rule_paths[RULE_PATHS_MAX]; /* patterns for fnmatch(): the paths that rules refer to */
	size_t rule_path_count;
	char **command; /* NULL-terminated */
};

bool options_parse(int count, char **words, struct options *options, struct failure *failure);
extern const char OPTIONS_HELP[];

/* Translates a path on this machine to its counterpart in production. */
void path_in_production(const char *here, const struct options *options, char *path, size_t path_bytes);

#endif
