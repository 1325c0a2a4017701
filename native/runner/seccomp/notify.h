#ifndef KREPLAY_RUNNER_NOTIFY_H
#define KREPLAY_RUNNER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/seccomp.h>

/* seccomp(2) has no wrapper in libc. */
long seccomp(unsigned operation, unsigned flags, void *argument);

enum received {
	RECEIVED_CALL,
	RECEIVED_NONE, /* this thread got a signal, for example */
	/*
	 * An announced call is gone: its thread has ended or was interrupted, because a call waits killably only once
	 * it is received. The kernel reports this once for each such call, but also when no process is left.
	 */
	RECEIVED_GONE,
	RECEIVED_ERROR, /* see errno */
};

enum received notify_receive(int listener, struct seccomp_notif *notif);

/* Lets the call happen. Returns false if the thread has ended or was interrupted. */
bool notify_continue(int listener, uint64_t id);

/* Answers the call instead of letting it happen: with `value`, or with -`error` if that is not 0. */
bool notify_answer(int listener, uint64_t id, int64_t value, int error);

bool notify_is_valid(int listener, uint64_t id);

/*
 * Makes wake-ups synchronous, from 6.6 on; without it, a reply to a sleeping thread costs a wake-up of another CPU, 60
 * to 110 us.
 */
bool notify_wake_synchronously(int listener);

#endif
