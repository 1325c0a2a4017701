/* kreplay-runner makes the calls of a command take as long as a plan says. --help describes its usage. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "plan/options.h"
#include "report/exit_codes.h"
#include "run/run.h"

/*
 * Opens the standard fds that are missing, so that no file opened here gets their numbers. They are closed on exec, so
 * the command does not have them either.
 */
static void fill_standard_fds(void)
{
	while (true) {
		const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null > STDERR_FILENO)
			close(null);
		if (null < 0 || null > STDERR_FILENO)
			return;
	}
}

int main(int count, char **words)
{
	struct options options;
	struct failure failure;

	fill_standard_fds();
	if (!options_parse(count, words, &options, &failure)) {
		fprintf(stderr, "kreplay-runner: %s\n", failure.text);
		return EXIT_RUNNER_FAILED;
	}
	if (options.help) {
		fputs(OPTIONS_HELP, stdout);
		return 0;
	}
	return options.probe ? run_probe() : run_command(&options);
}
