#include "server.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"
#include "notify.h"

/* Where replies wake no one synchronously, going to sleep between two calls of a thread costs more than this. */
#define POLL_FOR_NS (30 * NS_PER_US)

static struct call *take_free(struct server *server)
{
	pthread_mutex_lock(&server->lock);
	struct call *call = server->free_calls;
	if (call)
		server->free_calls = call->next;
	server->totals.calls++;
	server->totals.overflowed += !call;
	pthread_mutex_unlock(&server->lock);
	return call;
}

static void give_back(struct server *server, struct call *call, bool is_interrupted)
{
	const struct report_call *record = &call->record;

	atomic_store(&server->shared->outstanding[call->outstanding_index], 0);
	pthread_mutex_lock(&server->lock);
	if (call->deadline_ns > 0 && !is_interrupted) {
		server->totals.delayed++;
		server->totals.injected_ns += record->replied_ns - record->received_ns;
		lateness_add(&server->totals.lateness,
			     record->replied_ns > call->deadline_ns ? record->replied_ns - call->deadline_ns : 0);
	}
	server->totals.calls -= call->is_repeated;
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

/* Before the reply: behind it the thread's next call may already be recorded. */
static void record_end(struct server *server, struct call *call)
{
	call->record.replied_ns = clock_ns();
	if (call->is_recorded && server->report)
		report_append(server->report, &call->record);
}

void server_finish(struct server *server, struct call *call)
{
	record_end(server, call);
	const bool is_sent = call->is_answered ? notify_answer(server->listener, call->id, call->value, call->error)
					       : notify_continue(server->listener, call->id);
	if (!is_sent)
		note_interrupted(server, call);
	give_back(server, call, false);
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

static void receive(struct server *server)
{
	struct shared *shared = server->shared;
	struct seccomp_notif *received = &shared->received;

	if (notify_receive(server->listener, received) <= 0)
		return;
	struct call *call = take_free(server);
	if (!call) {
		notify_continue(server->listener, received->id);
		received->id = 0;
		return;
	}
	const struct seccomp_notif notif = *received;
	atomic_store(&shared->outstanding[call->outstanding_index], notif.id);
	received->id = 0;

	*call = (struct call){
	    .id = notif.id,
	    .heap_index = NOT_IN_HEAP,
	    .outstanding_index = call->outstanding_index,
	    .record.received_ns = clock_ns(),
	};
	switch (server->decide(server->context, &notif, call)) {
	case VERDICT_PASS:
		server_finish(server, call);
		break;
	case VERDICT_HOLD:
		server_hold(server, call);
		break;
	case VERDICT_MAKE:
		makers_run(&server->makers, call);
		break;
	}
}

/* Before 6.11 receiving from a listener that nobody is behind blocks for ever: always ask first. */
static void *receiver_main(void *argument)
{
	struct server *server = argument;
	struct pollfd sources[2] = {{.fd = server->listener, .events = POLLIN},
				    {.fd = server->stop_fd, .events = POLLIN}};
	const bool may_spin = !server->wakes_synchronously && sysconf(_SC_NPROCESSORS_ONLN) >= 2;
	uint64_t poll_until = 0;

	prctl(PR_SET_NAME, "kreplay-receive");
	for (;;) {
		const bool is_impatient = may_spin && clock_ns() < poll_until;

		if (poll(sources, 2, is_impatient ? 0 : -1) <= 0) {
			/* The thread that was answered may be waiting for this very CPU. */
			if (is_impatient)
				sched_yield();
			continue;
		}
		if (sources[1].revents)
			break;
		if (sources[0].revents & POLLIN) {
			receive(server);
			poll_until = may_spin ? clock_ns() + POLL_FOR_NS : 0;
		} else if (sources[0].revents) {
			sources[0].fd = -1; /* nobody is behind it any more */
			poll_until = 0;
		}
	}
	return NULL;
}

static bool make_calls(struct server *server)
{
	struct call *calls = calloc(OUTSTANDING_MAX, sizeof(*calls));

	if (!calls)
		return false;
	for (uint32_t i = 0; i < OUTSTANDING_MAX; i++) {
		calls[i].outstanding_index = i;
		calls[i].next = i + 1 < OUTSTANDING_MAX ? &calls[i + 1] : NULL;
	}
	server->calls = server->free_calls = calls;
	return true;
}

bool server_start(struct server *server, struct shared *shared, uint64_t spin_ns, struct failure *failure)
{
	server->shared = shared;
	server->listener = shared->listener;
	server->wakes_synchronously = notify_wake_synchronously(server->listener);
	pthread_mutex_init(&server->lock, NULL);
	server->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (server->stop_fd < 0 || !make_calls(server))
		return fail(failure, "no memory for calls");
	makers_init(&server->makers, server);
	if (!timers_start(&server->timers, spin_ns, on_due, server))
		return fail(failure, "no thread for timers: %s", strerror(errno));
	errno = pthread_create(&server->receiver, NULL, receiver_main, server);
	server->is_started = errno == 0;
	return server->is_started || fail(failure, "no thread for calls: %s", strerror(errno));
}

void server_stop(struct server *server)
{
	const uint64_t one = 1;

	if (write(server->stop_fd, &one, sizeof(one)) < 0)
		return;
	pthread_join(server->receiver, NULL);
	makers_stop(&server->makers);
	timers_stop(&server->timers);
	close(server->stop_fd);
	free(server->calls);
}
