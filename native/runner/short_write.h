#ifndef KREPLAY_RUNNER_SHORT_WRITE_H
#define KREPLAY_RUNNER_SHORT_WRITE_H

#include "call.h"

/*
 * Writes half of what the call asks for to the borrowed file, and makes that its answer. A call that cannot be made
 * here as the kernel would make it for the build stays without one: it then happens, whole.
 */
void short_write(int listener, int file, struct call *call);

#endif
