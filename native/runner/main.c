/* kreplay-runner: makes the calls of a command take as long as a plan says. --help tells how it is used. */
#include <stdio.h>

#include "exit_codes.h"
#include "options.h"
#include "run.h"

int main(int count, char **words)
{
	struct options options;
	struct failure failure;

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
