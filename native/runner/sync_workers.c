#include "sync_workers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "notify.h"
#include "server.h"
#include "syscalls.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* The same open file description as the caller's, so that an error of the disk is told to it and once. -1: not allowed.
 */
static int borrow(const struct call *call)
{
	const int process = syscall(SYS_pidfd_open, call->record.pid, 0);

	if (process < 0)
		return -1;
	const int file = syscall(SYS_pidfd_getfd, process, (int)call->sync_arguments[0], 0);
	close(process);
	return file;
}

static int sync_file(int file, const struct call *call)
{
	const uint64_t *arguments = call->sync_arguments;

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

/* A step towards each value: a median that forgets, without keeping any. */
static void learn(struct sync_workers *workers, uint64_t took_ns)
{
	pthread_mutex_lock(&workers->lock);
	const uint64_t step = workers->median_ns / 16 + 1;
	if (workers->median_ns == 0)
		workers->median_ns = took_ns;
	else if (took_ns > workers->median_ns)
		workers->median_ns += step;
	else
		workers->median_ns -= step < workers->median_ns ? step : 0;
	pthread_mutex_unlock(&workers->lock);
}

/* The caller makes the call after the wait: what that takes, as far as is known, comes off the wait. */
static void expect(struct sync_workers *workers, struct call *call)
{
	pthread_mutex_lock(&workers->lock);
	const uint64_t expected_ns = workers->median_ns;
	pthread_mutex_unlock(&workers->lock);
	call->deadline_ns -= expected_ns < call->record.target_ns ? expected_ns : call->record.target_ns;
}

static void run(struct sync_workers *workers, struct call *call)
{
	struct server *server = workers->server;
	const int file = op_has_fd(call->record.op) ? borrow(call) : -1;

	/* Its process may have ended in between, and another one have its pid. */
	if (file >= 0 && notify_is_valid(server->listener, call->id)) {
		const uint64_t from_ns = clock_ns();
		const int synced = sync_file(file, call);
		const int error = synced < 0 ? errno : 0;

		call->record.native_ns = clock_ns() - from_ns;
		call->is_answered = true;
		call->error = call->error ? call->error : error;
		learn(workers, call->record.native_ns);
	} else {
		expect(workers, call);
	}
	if (file >= 0)
		close(file);
	server_hold(server, call);
}

static void *worker_main(void *argument)
{
	struct sync_workers *workers = argument;

	prctl(PR_SET_NAME, "kreplay-sync");
	pthread_mutex_lock(&workers->lock);
	for (;;) {
		struct call *call = workers->first;

		if (!call && workers->is_stopping)
			break;
		if (!call) {
			workers->idle++;
			pthread_cond_wait(&workers->changed, &workers->lock);
			workers->idle--;
			continue;
		}
		workers->first = call->next;
		workers->waiting--;
		pthread_mutex_unlock(&workers->lock);
		run(workers, call);
		pthread_mutex_lock(&workers->lock);
	}
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

void sync_workers_init(struct sync_workers *workers, struct server *server)
{
	*workers = (struct sync_workers){.server = server};
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->changed, NULL);
}

void sync_workers_run(struct sync_workers *workers, struct call *call)
{
	pthread_mutex_lock(&workers->lock);
	call->next = NULL;
	if (workers->first)
		workers->last->next = call;
	else
		workers->first = call;
	workers->last = call;
	workers->waiting++;
	if (workers->waiting > workers->idle && workers->count < SYNC_WORKERS_MAX &&
	    pthread_create(&workers->threads[workers->count], NULL, worker_main, workers) == 0)
		workers->count++;
	pthread_cond_signal(&workers->changed);
	pthread_mutex_unlock(&workers->lock);
}

void sync_workers_stop(struct sync_workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	workers->is_stopping = true;
	pthread_cond_broadcast(&workers->changed);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned i = 0; i < workers->count; i++)
		pthread_join(workers->threads[i], NULL);
}
