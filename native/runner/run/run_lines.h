#ifndef KREPLAY_RUNNER_RUN_LINES_H
#define KREPLAY_RUNNER_RUN_LINES_H

#include "run/run_state.h"

/* The lines of the control channel. */
void run_line_calibrated(struct control *control, const struct calibration *calibration);
void run_line_started(struct control *control, pid_t pid);
void run_line_stream(struct control *control, const struct streams *streams, uint32_t index);
void run_line_uncovered(struct control *control, struct replay *replay);
void run_lines_elsewhere(struct control *control, const struct replay *replay);
void run_line_ended(struct control *control, const struct run *run, uint64_t stolen_ns);
void run_line_failed(struct control *control, const char *reason);

/* Returns the exit code as a shell does: 128 plus the signal's number for a signal. */
int run_exit_code(int status);

#endif
