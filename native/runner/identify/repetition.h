#ifndef KREPLAY_RUNNER_REPETITION_H
#define KREPLAY_RUNNER_REPETITION_H

#include <stdint.h>

#include <linux/seccomp.h>

/*
 * Returns whether the kernel makes this thread's call, which waits, again after a signal had interrupted it: 0 if that
 * is not known, else a number that another repetition rarely has. It can wait for as long as the thread waits for a
 * CPU.
 *
 * For a handler, the kernel leaves the registers with which the thread is to go on in a frame on the thread's stack,
 * and for a call that is to be made again these are the registers before the call. As nothing runs between the handler
 * and the call, the frame is still there, below the stack pointer. Where handlers have a stack of their own, nothing is
 * known.
 */
uint32_t repetition_of(uint32_t tid, const struct seccomp_data *data);

#endif
