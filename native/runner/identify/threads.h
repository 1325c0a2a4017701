#ifndef KREPLAY_RUNNER_THREADS_H
#define KREPLAY_RUNNER_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/seccomp.h>

#include "delay/call.h"
#include "identify/observe.h"
#include "identify/table.h"

/* Limit that includes ended threads: all threads are dropped when it is reached. */
#define THREADS_MAX 65536

/* Cached state of a thread of the build. */
struct thread {
	uint32_t tid;
	uint32_t process;
	uint64_t comm_until_ns;
	char comm[COMM_MAX];
	char role[COMM_MAX]; /* key_of_comm(), which is never longer */
	/* The thread's last call, which is held as long as its id is unchanged. */
	struct seccomp_data data;
	struct call *call;
	uint64_t call_id;
	uint64_t looked_ns; /* when a call of the thread was last looked at: replay_look() */
};

struct threads {
	struct thread *all;
	uint32_t count, room;
	struct table index_by_tid;
	uint64_t renew_ns;    /* values read before this time are read again */
	bool handles_signals; /* a thread's process was seen to handle signals */
};

/* Returns NULL if there is no memory. */
struct thread *threads_get(struct threads *threads, uint32_t tid, uint64_t now_ns);

/* Returns whether a call repeats the one that was interrupted. */
bool thread_repeats(const struct thread *thread, const struct seccomp_data *data);

#endif
