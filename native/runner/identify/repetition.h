#ifndef KREPLAY_RUNNER_REPETITION_H
#define KREPLAY_RUNNER_REPETITION_H

#include <stdint.h>

#include <linux/seccomp.h>

#include "identify/signal_stacks.h"

/*
 * Returns whether the kernel makes this thread's call, which waits, again after a signal had interrupted it: 0 if that
 * is not known, else a number that another repetition rarely has. It can wait for as long as the thread waits for a
 * CPU.
 *
 * For a handler, the kernel leaves the registers with which the thread is to go on in a frame on a stack, and for a
 * call that is to be made again these are the registers before the call. On the thread's own stack the frame is still
 * there, below the stack pointer, as nothing runs between the handler and the call. On a stack that handlers have of
 * their own the frame is there until a handler runs again.
 */
uint32_t repetition_of(struct signal_stacks *stacks, uint32_t process, uint32_t tid, const struct seccomp_data *data);

#endif
