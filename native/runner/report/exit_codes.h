#ifndef KREPLAY_RUNNER_EXIT_CODES_H
#define KREPLAY_RUNNER_EXIT_CODES_H

/* These are the exit codes of a shell, of env(1) and of sysexits.h. */
#define EXIT_NOT_REPLAYABLE 69
#define EXIT_RUNNER_FAILED 125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127

#endif
