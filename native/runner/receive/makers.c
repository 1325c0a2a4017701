#include "receive/makers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "delay/clock.h"
#include "receive/borrow.h"
#include "receive/server.h"
#include "receive/short_write.h"
#include "seccomp/notify.h"
#include "seccomp/syscalls.h"

static int sync_file(int file, const struct call *call)
{
	const __u64 *arguments = call->data.args;

	switch (call->record.op) {
	case OP_FSYNC:
		return fsync(file);
	case OP_FDATASYNC:
		return fdatasync(file);
	case OP_SYNCFS:
		return syncfs(file);
	default:
		return sync_file_range(file, arguments[1], arguments[2], arguments[3]);
	}
}

/* Moves the median a step towards each value: it adapts over time and needs no stored values. */
static void learn(struct makers *makers, uint64_t took_ns)
{
	pthread_mutex_lock(&makers->lock);
	const uint64_t step = makers->median_ns / 16 + 1;
	if (makers->median_ns == 0)
		makers->median_ns = took_ns;
	else if (took_ns > makers->median_ns)
		makers->median_ns += step;
	else
		makers->median_ns -= step < makers->median_ns ? step : 0;
	pthread_mutex_unlock(&makers->lock);
}

/* The build makes the call itself after the wait, so the call's expected duration is subtracted from the wait. */
static void expect(struct makers *makers, struct call *call)
{
	pthread_mutex_lock(&makers->lock);
	const uint64_t expected_ns = makers->median_ns;
	pthread_mutex_unlock(&makers->lock);
	call->deadline_ns -= expected_ns < call->record.target_ns ? expected_ns : call->record.target_ns;
}

static void make_sync(struct makers *makers, struct call *call, int file)
{
	/* The thread may have ended in between, and another one may have its number. */
	if (file < 0 || !notify_is_valid(makers->server->listener, call->id)) {
		expect(makers, call);
		return;
	}
	const uint64_t from_ns = clock_ns();
	const int synced = sync_file(file, call);
	const int error = synced < 0 ? errno : 0;

	call->record.native_ns = clock_ns() - from_ns;
	call->is_answered = true;
	call->error = call->error ? call->error : error;
	learn(makers, call->record.native_ns);
}

static void make(struct makers *makers, struct call *call)
{
	const int file = op_has_fd(call->record.op) ? borrow_file(call->record.tid, call->data.args[0]) : -1;

	if (op_is_sync(call->record.op))
		make_sync(makers, call, file);
	else if (file >= 0)
		short_write(makers->server->listener, file, call);
	if (file >= 0)
		close(file);
}

static void run(struct makers *makers, struct call *call)
{
	if (call->is_looked_at)
		makers->server->look(makers->server->context, call);
	if (call->is_made)
		make(makers, call);
	server_hold(makers->server, call);
}

static void *maker_main(void *argument)
{
	struct makers *makers = argument;
	sigset_t all;

	prctl(PR_SET_NAME, "kreplay-make");
	/* The blocked signals include SIGXFSZ, from this process's own file size limit: the write fails in any case. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	pthread_mutex_lock(&makers->lock);
	for (;;) {
		struct call *call = makers->first;

		if (!call && makers->is_stopping)
			break;
		if (!call) {
			makers->idle++;
			pthread_cond_wait(&makers->changed, &makers->lock);
			makers->idle--;
			continue;
		}
		makers->first = call->next;
		makers->waiting--;
		pthread_mutex_unlock(&makers->lock);
		run(makers, call);
		pthread_mutex_lock(&makers->lock);
	}
	pthread_mutex_unlock(&makers->lock);
	return NULL;
}

void makers_init(struct makers *makers, struct server *server)
{
	*makers = (struct makers){.server = server};
	pthread_mutex_init(&makers->lock, NULL);
	pthread_cond_init(&makers->changed, NULL);
}

void makers_run(struct makers *makers, struct call *call)
{
	pthread_mutex_lock(&makers->lock);
	call->next = NULL;
	if (makers->first)
		makers->last->next = call;
	else
		makers->first = call;
	makers->last = call;
	makers->waiting++;
	if (makers->waiting > makers->idle && makers->count < MAKERS_MAX &&
	    pthread_create(&makers->threads[makers->count], NULL, maker_main, makers) == 0)
		makers->count++;
	pthread_cond_signal(&makers->changed);
	pthread_mutex_unlock(&makers->lock);
}

void makers_stop(struct makers *makers)
{
	pthread_mutex_lock(&makers->lock);
	makers->is_stopping = true;
	pthread_cond_broadcast(&makers->changed);
	pthread_mutex_unlock(&makers->lock);
	for (unsigned i = 0; i < makers->count; i++)
		pthread_join(makers->threads[i], NULL);
}
