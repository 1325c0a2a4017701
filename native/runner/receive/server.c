#include "receive/server.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "delay/clock.h"
#include "seccomp/notify.h"

/*
 * Maximum number of calls held at once. Beyond 1000, each answer takes the kernel noticeably longer: it walks a list of
 * them.
 */
#define HELD_MAX 16384

/* If replies do not wake synchronously, going to sleep between two calls of a thread costs more than this. */
#define POLL_FOR_NS (30 * NS_PER_US)

/* Limit of consecutive failures to receive: the cause may be temporary; after so many, no call will arrive. */
#define FAILURES_MAX 100
#define AFTER_FAILURE_MS 1

/* More threads than this are not interrupted at once. */
#define GONE_AT_ONCE_MAX 65536

/* Interrupts the receiver's wait; all other threads block it. */
#define SIGNAL_STOP SIGUSR1
#define STOP_AGAIN_NS NS_PER_MS

static struct call *take_free(struct server *server)
{
	struct call *call = server->spare;

	if (call) {
		server->spare = NULL;
		return call;
	}
	pthread_mutex_lock(&server->lock);
	call = server->free_calls;
	if (call)
		server->free_calls = call->next;
	server->totals.overflowed += !call;
	pthread_mutex_unlock(&server->lock);
	return call;
}

static void give_back(struct server *server, struct call *call, bool is_interrupted)
{
	const struct report_call *record = &call->record;

	pthread_mutex_lock(&server->lock);
	if (call->deadline_ns > 0 && !is_interrupted) {
		server->totals.delayed++;
		server->totals.injected_ns += record->replied_ns - record->received_ns;
		lateness_add(&server->totals.lateness,
			     record->replied_ns > call->deadline_ns ? record->replied_ns - call->deadline_ns : 0);
	}
	call->next = server->free_calls;
	server->free_calls = call;
	atomic_store(&call->id, 0);
	pthread_mutex_unlock(&server->lock);
}

static void note_interrupted(struct server *server, const struct call *call)
{
	pthread_mutex_lock(&server->lock);
	const uint32_t count = atomic_load(&server->interrupted_count);
	server->interrupted[count % INTERRUPTED_MAX] =
	    (struct interrupted){call->record.tid, call->is_answered, call->value, call->error};
	atomic_store(&server->interrupted_count, count + 1);
	pthread_mutex_unlock(&server->lock);
}

bool server_take_interrupted(struct server *server, uint32_t tid, struct call *call)
{
	bool is_taken = false;

	if (atomic_load_explicit(&server->interrupted_count, memory_order_relaxed) == 0)
		return false;
	pthread_mutex_lock(&server->lock);
	for (unsigned i = 0; i < INTERRUPTED_MAX; i++) {
		struct interrupted *interrupted = &server->interrupted[i];

		if (tid == 0 || interrupted->tid != tid)
			continue;
		call->is_answered = interrupted->is_answered;
		call->value = interrupted->value;
		call->error = interrupted->error;
		interrupted->tid = 0;
		is_taken = true;
	}
	pthread_mutex_unlock(&server->lock);
	return is_taken;
}

/* Records the end of a call before its reply: after that, the thread's next call may already be recorded. */
static void record_end(struct server *server, struct call *call)
{
	call->record.replied_ns = clock_ns();
	queue_answer(&server->queue, call->record.tid, call->record.replied_ns);
	if (call->is_recorded && server->report)
		report_append(server->report, &call->record);
}

static void reply(struct server *server, struct call *call)
{
	record_end(server, call);
	const bool is_sent = call->is_answered ? notify_answer(server->listener, call->id, call->value, call->error)
					       : notify_continue(server->listener, call->id);
	if (!is_sent)
		note_interrupted(server, call);
}

void server_finish(struct server *server, struct call *call)
{
	reply(server, call);
	give_back(server, call, false);
}

/* Keeps the struct for the next call, so that a call that is not held takes no lock. */
static void pass(struct server *server, struct call *call)
{
	reply(server, call);
	atomic_store_explicit(&call->id, 0, memory_order_release);
	server->spare = call;
}

void server_forget(struct server *server, struct call *call)
{
	record_end(server, call);
	give_back(server, call, true);
}

void server_hold(struct server *server, struct call *call)
{
	if (call->deadline_ns <= clock_ns() || !timers_push(&server->timers, call))
		server_finish(server, call);
}

static void on_due(void *context, struct call *call)
{
	server_finish(context, call);
}

/* An `error` of 0 means that no thread was waiting, or that it is time to stop. */
static void note_failure(struct server *server, int error)
{
	server->failures = error ? server->failures + 1 : 0;
	if (server->failures == FAILURES_MAX)
		atomic_store(&server->receive_errno, error);
	if (error)
		poll(NULL, 0, AFTER_FAILURE_MS);
}

static void note_gone(struct server *server)
{
	const struct gone *gone = &server->gone;
	const uint64_t count = gone->skipped > gone->told ? gone->skipped : gone->told;

	for (; server->totals.interrupted < count; server->totals.interrupted++)
		if (server->interrupted_before)
			server->interrupted_before(server->context, clock_ns());
}

/* Returns how many calls are gone between the call that was received before and this one. */
static uint32_t note_number(struct server *server, uint64_t id)
{
	struct gone *gone = &server->gone;
	const uint64_t skipped = gone->last_id ? id - gone->last_id - 1 : 0;

	gone->last_id = id;
	/* A kernel that numbers calls differently still reports the calls that are gone. */
	if (skipped == 0 || skipped > GONE_AT_ONCE_MAX)
		return 0;
	gone->skipped += skipped;
	note_gone(server);
	return skipped;
}

/* Receives and processes one call. Blocks until a call comes, or until it is time to stop, for example. */
static enum received receive(struct server *server)
{
	struct seccomp_notif notif;

	queue_look(&server->queue, clock_ns());
	const enum received what = notify_receive(server->listener, &notif);
	if (what != RECEIVED_CALL) {
		note_failure(server, what == RECEIVED_ERROR ? errno : 0);
		return what;
	}
	server->failures = 0;
	const uint32_t skipped = note_number(server, notif.id);
	struct call *call = take_free(server);
	server->totals.calls++;
	if (!call) {
		notify_continue(server->listener, notif.id);
		return what;
	}
	*call = (struct call){
	    .id = notif.id,
	    .heap_index = NOT_IN_HEAP,
	    .skipped = skipped,
	    .record.received_ns = clock_ns(),
	    .record.tid = notif.pid,
	};
	uint64_t queued_ns = queue_waited(&server->queue, notif.pid, call->record.received_ns);
	const enum verdict verdict = server->decide(server->context, &notif, call);
	if (verdict != VERDICT_PASS)
		queued_ns = queue_waited_for_cpu(&server->queue, queued_ns, call->record.received_ns);
	call->record.queued_ns = queued_ns < UINT32_MAX ? queued_ns : UINT32_MAX;
	server->totals.calls -= call->is_repeated || call->is_output;
	switch (verdict) {
	case VERDICT_PASS:
		pass(server, call);
		break;
	case VERDICT_HOLD:
		server_hold(server, call);
		break;
	case VERDICT_MAKE:
		makers_run(&server->makers, call);
		break;
	}
	return what;
}

/* Waits briefly for a call: if none arrives, sleeping costs less. */
static void spin_for_call(struct server *server)
{
	struct pollfd listener = {.fd = server->listener, .events = POLLIN};
	const uint64_t until_ns = clock_ns() + POLL_FOR_NS;

	while (poll(&listener, 1, 0) == 0 && clock_ns() < until_ns)
		sched_yield(); /* the thread that was answered may be waiting for this very CPU */
}

static bool is_anyone_behind(const struct server *server)
{
	struct pollfd listener = {.fd = server->listener, .events = POLLIN};

	return poll(&listener, 1, 0) <= 0 || !(listener.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/*
 * Unregisters this thread's rseq. The C library registers every thread (rseq(2)), and the kernel then writes the CPU's
 * number to it at each switch: 0.1 us of an answer, for a value that is not used here. If the kernel refuses, nothing
 * changes.
 */
static void leave_rseq(void)
{
	syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, sizeof(struct rseq), RSEQ_FLAG_UNREGISTER,
		RSEQ_SIG);
}

/*
 * Receives without a poll() before it, which would cost a tenth of an answer. Before 6.11, receiving from a listener
 * that no process is behind blocks until a signal arrives.
 */
static void *receiver_main(void *argument)
{
	struct server *server = argument;
	const bool may_spin = !server->wakes_synchronously && sysconf(_SC_NPROCESSORS_ONLN) >= 2;
	sigset_t stopping;

	prctl(PR_SET_NAME, "kreplay-receive");
	leave_rseq();
	sigemptyset(&stopping);
	sigaddset(&stopping, SIGNAL_STOP);
	pthread_sigmask(SIG_UNBLOCK, &stopping, NULL);
	queue_init(&server->queue, server->listener, clock_ns());
	shared_announce(server->shared, STAGE_SERVING);
	while (!atomic_load(&server->is_stopping) && !atomic_load(&server->receive_errno)) {
		if (may_spin)
			spin_for_call(server);
		const enum received what = receive(server);
		if (what == RECEIVED_CALL)
			continue;
		if (!is_anyone_behind(server)) {
			poll(NULL, 0, -1);
		} else if (what == RECEIVED_GONE) {
			server->gone.told++;
			note_gone(server);
		}
	}
	return NULL;
}

static bool make_calls(struct server *server)
{
	struct call *calls = calloc(HELD_MAX, sizeof(*calls));

	if (!calls)
		return false;
	for (uint32_t i = 0; i + 1 < HELD_MAX; i++)
		calls[i].next = &calls[i + 1];
	server->calls = server->free_calls = calls;
	return true;
}

static void on_stop(int signal)
{
	(void)signal;
}

bool server_start(struct server *server, struct shared *shared, uint64_t spin_ns, struct failure *failure)
{
	server->shared = shared;
	server->listener = shared->listener;
	server->wakes_synchronously = notify_wake_synchronously(server->listener);
	pthread_mutex_init(&server->lock, NULL);
	if (!make_calls(server))
		return fail(failure, "no memory for calls");
	sigaction(SIGNAL_STOP, &(struct sigaction){.sa_handler = on_stop}, &server->on_stop_before);
	makers_init(&server->makers, server);
	if (!timers_start(&server->timers, spin_ns, on_due, server))
		return fail(failure, "no thread for timers: %s", strerror(errno));
	errno = pthread_create(&server->receiver, NULL, receiver_main, server);
	return errno == 0 || fail(failure, "no thread for calls: %s", strerror(errno));
}

/* A signal that arrives before the receiver blocks has no effect, so it is repeated until the thread has ended. */
static void stop_receiver(struct server *server)
{
	struct timespec until;

	atomic_store(&server->is_stopping, true);
	do {
		pthread_kill(server->receiver, SIGNAL_STOP);
		until = clock_timespec(clock_ns() + STOP_AGAIN_NS);
	} while (pthread_clockjoin_np(server->receiver, NULL, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
}

void server_stop(struct server *server)
{
	stop_receiver(server);
	makers_stop(&server->makers);
	timers_stop(&server->timers);
	free(server->calls);
	sigaction(SIGNAL_STOP, &server->on_stop_before, NULL);
}
