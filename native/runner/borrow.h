#ifndef KREPLAY_RUNNER_BORROW_H
#define KREPLAY_RUNNER_BORROW_H

#include <sys/types.h>

/*
 * An open file of a thread, as a descriptor of ours: the same open file description, so that its position moves for
 * both, and an error of the disk is reported once. -1: it is not open, or we may not have it.
 *
 * The thread has to be stopped in a call all the while. Only when that call is still valid after this (notify_is_valid)
 * was the thread not one that got the number in between.
 */
int borrow_file(pid_t tid, int fd);

#endif
