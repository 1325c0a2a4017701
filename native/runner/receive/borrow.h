#ifndef KREPLAY_RUNNER_BORROW_H
#define KREPLAY_RUNNER_BORROW_H

#include <sys/types.h>

/*
 * Duplicates an open file of a thread into this process. Both descriptors refer to the same open file description, so
 * the position moves for both, and an error of the disk is reported once. Returns -1 if the file is not open or access
 * is denied.
 *
 * The thread has to be stopped in a call the whole time. The number may have been reused by another thread unless that
 * call is still valid afterwards (notify_is_valid).
 */
int borrow_file(pid_t tid, int fd);

#endif
