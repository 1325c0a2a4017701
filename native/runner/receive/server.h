#ifndef KREPLAY_RUNNER_SERVER_H
#define KREPLAY_RUNNER_SERVER_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <linux/seccomp.h>

#include "command/shared_page.h"
#include "delay/call.h"
#include "delay/lateness.h"
#include "delay/timers.h"
#include "receive/makers.h"
#include "receive/queue.h"
#include "report/failure.h"
#include "report/report.h"

/* The decision on a call. */
enum verdict {
	VERDICT_PASS, /* let it happen now */
	VERDICT_HOLD, /* hold it until its deadline */
	/* Make it here, or look at it, on another thread; then hold it until its deadline, if there is one. */
	VERDICT_MAKE,
};

struct totals {
	uint64_t calls; /* counted on the receiving thread */
	uint64_t delayed;
	uint64_t injected_ns;
	uint64_t overflowed;  /* let through because too many were held */
	uint64_t interrupted; /* announced, but gone before they were received */
	struct lateness lateness;
};

/* A call whose reply came too late, because a signal had ended its wait. The kernel may make it again. */
struct interrupted {
	uint32_t tid; /* 0: none */
	bool is_answered;
	int64_t value;
	int error;
};

#define INTERRUPTED_MAX 64

/*
 * Calls that ended before they were received. The kernel numbers calls one after another, so a call whose number is not
 * the next one shows that others are gone, before it is answered. The kernel also reports each call that is gone, but
 * late; only these reports show the ones after the last received call.
 */
struct gone {
	uint64_t last_id; /* of the calls that were received; 0: none */
	uint64_t skipped;
	uint64_t told;
};

/* Receives the calls behind one listener and answers them, with two threads and the makers' threads. */
struct server {
	int listener;
	bool wakes_synchronously;
	struct shared *shared;
	struct timers timers;
	struct makers makers;
	struct queue queue;
	struct report *report;

	/* Runs on the receiving thread; fills in the call's record, deadline and answer. */
	enum verdict (*decide)(void *context, const struct seccomp_notif *notif, struct call *call);
	/*
	 * Runs on the receiving thread, if it is not NULL, when a thread was interrupted before its call was received.
	 */
	void (*interrupted_before)(void *context, uint64_t now_ns);
	/* Runs on a maker's thread, for calls that are to be looked at. */
	void (*look)(void *context, struct call *call);
	void *context;
	struct call *spare; /* unused call of the receiving thread; NULL: none */
	struct gone gone;
	unsigned failures; /* consecutive failures to receive a call */

	pthread_mutex_t lock; /* protects the following members */
	struct call *calls;
	struct call *free_calls;
	struct totals totals;
	struct interrupted interrupted[INTERRUPTED_MAX]; /* a ring of the latest ones */
	_Atomic uint32_t interrupted_count;

	pthread_t receiver;
	_Atomic bool is_stopping;
	_Atomic int receive_errno; /* 0, or the error after which no call can be received */
	struct sigaction on_stop_before;
};

bool server_start(struct server *server, struct shared *shared, uint64_t spin_ns, struct failure *failure);
void server_stop(struct server *server);

/* Holds the call until its deadline, if it has one, and then answers it. It is called once per call. */
void server_hold(struct server *server, struct call *call);
void server_finish(struct server *server, struct call *call);
/*
 * Returns whether the thread's last call was interrupted when its time was over; if so, gives the new one the same
 * answer.
 */
bool server_take_interrupted(struct server *server, uint32_t tid, struct call *call);
/* Releases a call whose thread was interrupted and does not wait for it. */
void server_forget(struct server *server, struct call *call);

#endif
