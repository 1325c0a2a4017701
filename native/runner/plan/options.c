#include "plan/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delay/clock.h"

const char OPTIONS_HELP[] =
    "usage: kreplay-runner --plan FILE [options] -- command [argument...]\n"
    "       kreplay-runner --probe\n"
    "\n"
    "Runs a command and makes each of its writes and syncs take as long as the plan says.\n"
    "\n"
    "  --plan FILE           what each call shall take, as `kreplay run` writes it\n"
    "  --report FILE         what each call took\n"
    "  --tails FILE          the last bytes of outputs that are pipes or sockets\n"
    "  --control-fd N        pipe or socket: JSON lines out; passthrough, resume, stop in\n"
    "  --mode MODE           auto (default), align, ordinal, dist, stall\n"
    "  --seed N              of the random choices, instead of the plan's\n"
    "  --unknown none|class  what calls to files that the plan does not have take: what they take\n"
    "                        (default), or as long as others of their kind\n"
    "  --threshold-ns N      let calls through that were to take less than this\n"
    "  --spin-ns N           busy-wait at the end of a wait; default 100000, 0 on one CPU\n"
    "  --map CI=PROD         path prefix here, and in the recording; may be given again\n"
    "  --rule-path PATTERN   path of a rule, as in fnmatch(3): files stand for others only when all of\n"
    "                        these match both or neither; may be given again\n"
    "  --io-uring deny|ignore   io_uring_setup fails with ENOSYS (default), or is let through\n"
    "  --linger-ns N         how long processes may outlive the command; default 5000000000\n"
    "  --probe               print what this kernel can do as JSON; exit code 69: no replay here\n"
    "  --help\n"
    "\n"
    "Exit code: the command's, 128+n if signal n ended it; 125 if this program failed, 126 if the\n"
    "command cannot be run, 127 if there is none of that name.\n";

#define LINGER_NS (5 * NS_PER_S)

enum option_number {
	OPTION_PLAN = 1,
	OPTION_REPORT,
	OPTION_TAILS,
	OPTION_CONTROL_FD,
	OPTION_MODE,
	OPTION_SEED,
	OPTION_UNKNOWN,
	OPTION_THRESHOLD,
	OPTION_SPIN,
	OPTION_MAP,
	OPTION_RULE_PATH,
	OPTION_IO_URING,
	OPTION_LINGER,
	OPTION_PROBE,
	OPTION_HELP,
};

static const struct option LONG_OPTIONS[] = {
    {"plan", required_argument, NULL, OPTION_PLAN},
    {"report", required_argument, NULL, OPTION_REPORT},
    {"tails", required_argument, NULL, OPTION_TAILS},
    {"control-fd", required_argument, NULL, OPTION_CONTROL_FD},
    {"mode", required_argument, NULL, OPTION_MODE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"unknown", required_argument, NULL, OPTION_UNKNOWN},
    {"threshold-ns", required_argument, NULL, OPTION_THRESHOLD},
    {"spin-ns", required_argument, NULL, OPTION_SPIN},
    {"map", required_argument, NULL, OPTION_MAP},
    {"rule-path", required_argument, NULL, OPTION_RULE_PATH},
    {"io-uring", required_argument, NULL, OPTION_IO_URING},
    {"linger-ns", required_argument, NULL, OPTION_LINGER},
    {"probe", no_argument, NULL, OPTION_PROBE},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool parse_number(const char *name, const char *text, uint64_t max, uint64_t *value, struct failure *failure)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || *value > max)
		return fail(failure, "--%s %s: expected a whole number from 0 to %llu", name, text,
			    (unsigned long long)max);
	return true;
}

/* Finds the index of the word in the list. */
static bool parse_word(const char *name, const char *text, const char *const *words, unsigned *index,
		       struct failure *failure)
{
	char all[128] = "";

	for (*index = 0; words[*index]; (*index)++) {
		if (strcmp(text, words[*index]) == 0)
			return true;
		if (*index > 0)
			strcat(all, ", ");
		strcat(all, words[*index]);
	}
	return fail(failure, "--%s %s: expected one of %s", name, text, all);
}

static bool parse_map(const char *text, struct options *options, struct failure *failure)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text)
		return fail(failure, "--map %s: expected a path here, =, and its path in the recording", text);
	if (options->map_count == PATH_MAPS_MAX)
		return fail(failure, "--map %s: more than %d", text, PATH_MAPS_MAX);
	options->maps[options->map_count++] = (struct path_map){text, equals - text, equals + 1};
	return true;
}

static bool parse_rule_path(const char *text, struct options *options, struct failure *failure)
{
	if (options->rule_path_count == RULE_PATHS_MAX)
		return fail(failure, "--rule-path %s: more than %d", text, RULE_PATHS_MAX);
	options->rule_paths[options->rule_path_count++] = text;
	return true;
}

static bool parse_option(int option, struct options *options, struct failure *failure)
{
	static const char *const modes[] = {"auto", "align", "ordinal", "dist", "stall", NULL};
	static const char *const unknown[] = {"none", "class", NULL};
	static const char *const io_uring[] = {"deny", "ignore", NULL};
	uint64_t number;
	unsigned word;

	switch (option) {
	case OPTION_PLAN:
		options->plan = optarg;
		return true;
	case OPTION_REPORT:
		options->report = optarg;
		return true;
	case OPTION_TAILS:
		options->tails = optarg;
		return true;
	case OPTION_CONTROL_FD:
		if (!parse_number("control-fd", optarg, INT_MAX, &number, failure))
			return false;
		options->control_fd = number;
		return fcntl(options->control_fd, F_GETFD) >= 0 ||
		       fail(failure, "--control-fd %s: %s", optarg, strerror(errno));
	case OPTION_MODE:
		if (!parse_word("mode", optarg, modes, &word, failure))
			return false;
		options->mode = word;
		return true;
	case OPTION_SEED:
		options->has_seed = true;
		return parse_number("seed", optarg, UINT64_MAX, &options->seed, failure);
	case OPTION_UNKNOWN:
		if (!parse_word("unknown", optarg, unknown, &word, failure))
			return false;
		options->draws_by_class = word == 1;
		return true;
	case OPTION_THRESHOLD:
		return parse_number("threshold-ns", optarg, INT64_MAX, &options->threshold_ns, failure);
	case OPTION_SPIN:
		return parse_number("spin-ns", optarg, NS_PER_S, &options->spin_ns, failure);
	case OPTION_RULE_PATH:
		return parse_rule_path(optarg, options, failure);
	case OPTION_MAP:
		return parse_map(optarg, options, failure);
	case OPTION_IO_URING:
		if (!parse_word("io-uring", optarg, io_uring, &word, failure))
			return false;
		options->deny_io_uring = word == 0;
		return true;
	case OPTION_LINGER:
		return parse_number("linger-ns", optarg, INT64_MAX / 2, &options->linger_ns, failure);
	case OPTION_PROBE:
		options->probe = true;
		return true;
	case OPTION_HELP:
		options->help = true;
		return true;
	}
	return false;
}

bool options_parse(int count, char **words, struct options *options, struct failure *failure)
{
	*options = (struct options){
	    .control_fd = -1,
	    .spin_ns = SPIN_CHOSEN_BY_CPUS,
	    .deny_io_uring = true,
	    .linger_ns = LINGER_NS,
	};
	opterr = 0;
	for (;;) {
		/* The + stops the parsing at the command, whose arguments belong to it. */
		const int option = getopt_long(count, words, "+", LONG_OPTIONS, NULL);

		if (option < 0)
			break;
		if (option == '?')
			return fail(failure, "%s: unknown option, or one whose value is missing; see --help",
				    words[optind - 1]);
		if (!parse_option(option, options, failure))
			return false;
	}
	options->command = words + optind;
	if (options->help || options->probe)
		return true;
	if (!options->plan)
		return fail(failure, "--plan is missing; see --help");
	if (optind == count)
		return fail(failure, "a command to run is missing; see --help");
	return true;
}

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
