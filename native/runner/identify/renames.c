#include "identify/renames.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <unistd.h>

static _Atomic bool is_any;

static void on_rename(int signal)
{
	(void)signal;
	atomic_store(&is_any, true);
}

static bool tell_this_thread(int inotify)
{
	const struct f_owner_ex owner = {F_OWNER_TID, gettid()};
	const struct sigaction action = {.sa_handler = on_rename, .sa_flags = SA_RESTART};
	sigset_t told;

	sigemptyset(&told);
	sigaddset(&told, SIGIO);
	return sigaction(SIGIO, &action, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &told, NULL) == 0 &&
	       fcntl(inotify, F_SETOWN_EX, &owner) == 0 && fcntl(inotify, F_SETFL, O_ASYNC | O_NONBLOCK) == 0;
}

/* The inode is compared before and after, so it is that of the watched file. */
static bool watch(int inotify, struct watched *file)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%u/fdinfo/%d", file->tid, file->fd);
	file->info = open(path, O_RDONLY | O_CLOEXEC);
	if (file->info < 0 || !fdinfo_read(file->info, &file->told))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/fd/%d", file->tid, file->fd);
	file->watch = inotify_add_watch(inotify, path, IN_MOVE_SELF);
	return file->watch != NOT_WATCHED && fdinfo_is_still(file->info, &file->told);
}

/* The thread runs to the end of the process: a file system may take any time to answer. */
static void *watcher_main(void *argument)
{
	struct renames *renames = argument;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "kreplay-watch");
	for (;;) {
		while (sem_wait(&renames->asked) < 0)
			continue;
		if (!watch(renames->inotify, &renames->file))
			renames_unwatch(renames, &renames->file);
		atomic_store(&renames->state, ANSWERED);
		atomic_store(&is_any, true);
	}
	return NULL;
}

void renames_init(struct renames *renames, bool is_wanted)
{
	renames->state = is_wanted ? NOT_STARTED : NONE_TO_HAVE;
	renames->inotify = NOT_OPEN;
}

static bool start(struct renames *renames)
{
	pthread_t watcher;

	renames->inotify = inotify_init1(IN_CLOEXEC);
	if (renames->inotify < 0)
		return false;
	if (tell_this_thread(renames->inotify) && sem_init(&renames->asked, 0, 0) == 0 &&
	    pthread_create(&watcher, NULL, watcher_main, renames) == 0)
		return pthread_detach(watcher) == 0;
	close(renames->inotify);
	renames->inotify = NOT_OPEN;
	return false;
}

bool renames_watch(struct renames *renames, uint32_t tid, int fd)
{
	if (atomic_load(&renames->state) == NOT_STARTED)
		atomic_store(&renames->state, start(renames) ? IDLE : NONE_TO_HAVE);
	if (atomic_load(&renames->state) != IDLE)
		return false;
	renames->has_any_ended = false;
	renames->file = (struct watched){tid, fd, NOT_WATCHED, NOT_OPEN, {0}};
	atomic_store(&renames->state, ASKED);
	sem_post(&renames->asked);
	return true;
}

void renames_unwatch(const struct renames *renames, struct watched *file)
{
	if (file->watch != NOT_WATCHED)
		inotify_rm_watch(renames->inotify, file->watch);
	if (file->info != NOT_OPEN)
		close(file->info);
	file->watch = NOT_WATCHED;
	file->info = NOT_OPEN;
}

bool renames_any(void)
{
	return atomic_load_explicit(&is_any, memory_order_relaxed) && atomic_exchange(&is_any, false);
}

bool renames_take_watched(struct renames *renames, struct watched *file)
{
	if (atomic_load(&renames->state) != ANSWERED)
		return false;
	*file = renames->file;
	if (renames->has_any_ended)
		renames_unwatch(renames, file);
	atomic_store(&renames->state, IDLE);
	return true;
}

bool renames_next(struct renames *renames, struct rename *rename)
{
	/* The struct is long enough: events of a watched file itself contain no name. */
	struct inotify_event event;

	if (read(renames->inotify, &event, sizeof(event)) != sizeof(event))
		return false;
	*rename = (struct rename){event.wd, event.mask & (IN_IGNORED | IN_Q_OVERFLOW)};
	renames->has_any_ended |= rename->has_ended;
	return true;
}
