#ifndef KREPLAY_RUNNER_REPETITION_H
#define KREPLAY_RUNNER_REPETITION_H

#include <stdint.h>

#include <linux/seccomp.h>

#include "identify/signal_stacks.h"

/*
 * Returns whether the kernel repeats this thread's waiting call after a signal interrupted it: 0 if that is not known,
 * else a number that another repetition rarely has. The function can take as long as the thread waits for a CPU.
 *
 * For a handler, the kernel saves the registers with which the thread will go on in a frame on a stack; for a call that
 * will be repeated, these are the registers before the call. On the thread's own stack the frame is still there, below
 * the stack pointer, because nothing runs between the handler and the call. On a separate stack for handlers the frame
 * is there until a handler runs again.
 */
uint32_t repetition_of(struct signal_stacks *stacks, uint32_t process, uint32_t tid, const struct seccomp_data *data);

#endif
