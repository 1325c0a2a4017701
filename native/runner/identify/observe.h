#ifndef KREPLAY_RUNNER_OBSERVE_H
#define KREPLAY_RUNNER_OBSERVE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define COMM_MAX 64

/*
 * Reads a thread's state from /proc. For a program that may not be inspected, the functions return false, 0 or
 * SIZE_UNKNOWN.
 */
bool observe_comm(uint32_t tid, char comm[static COMM_MAX]);
uint32_t observe_process(uint32_t tid);
/* Like observe_process(); also returns whether the process handles signals that may come at any time. */
uint32_t observe_process_and_signals(uint32_t tid, bool *handles_signals);
/* Gets the path of the file mapped at an address of the thread. Returns its length, as readlink(2) does. */
ssize_t observe_mapped(uint32_t tid, uint64_t address, char *text, size_t text_bytes);
bool observe_has_ended(uint32_t tid);
bool observe_iovec(uint32_t tid, uint64_t iovec, uint64_t count, struct iovec parts[static IOV_MAX]);
uint32_t observe_iovec_bytes(uint32_t tid, uint64_t iovec, uint64_t count);

#endif
