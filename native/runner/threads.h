#ifndef KREPLAY_RUNNER_THREADS_H
#define KREPLAY_RUNNER_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/seccomp.h>

#include "call.h"
#include "observe.h"
#include "table.h"

/* Ended threads among them: all are forgotten when there are this many. */
#define THREADS_MAX 65536

/* A thread of the build, as far as was looked. */
struct thread {
	uint32_t tid;
	uint32_t process;
	uint64_t comm_until_ns;
	char comm[COMM_MAX];
	char role[COMM_MAX]; /* key_of_comm(), which is no longer */
	/* Its last call, which is held as long as the id says so. */
	struct seccomp_data data;
	struct call *call;
	uint64_t call_id;
};

struct threads {
	struct thread *all;
	uint32_t count, room;
	struct table index_by_tid;
};

/* NULL: no memory. */
struct thread *threads_get(struct threads *threads, uint32_t tid, uint64_t now_ns);

/* Whether a call is that which was interrupted, made again. */
bool thread_repeats(const struct thread *thread, const struct seccomp_data *data);

#endif
