#ifndef KREPLAY_RUNNER_SHORT_WRITE_H
#define KREPLAY_RUNNER_SHORT_WRITE_H

#include "delay/call.h"

/*
 * Writes half of the call's data to the borrowed file, and makes that the call's answer. If the runner cannot make the
 * call exactly as the kernel would for the build, the call stays unanswered and then happens, whole.
 */
void short_write(int listener, int file, struct call *call);

#endif
