#include "renames.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/inotify.h>
#include <unistd.h>

#define NONE_TO_HAVE (-1)

static _Atomic bool is_any;

static void on_rename(int signal)
{
	(void)signal;
	atomic_store_explicit(&is_any, true, memory_order_relaxed);
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

static int open_inotify(void)
{
	const int inotify = inotify_init1(IN_CLOEXEC);

	if (inotify < 0)
		return NONE_TO_HAVE;
	if (tell_this_thread(inotify))
		return inotify;
	close(inotify);
	return NONE_TO_HAVE;
}

static bool is_open(const struct renames *renames)
{
	return renames->is_asked_for && renames->inotify != NONE_TO_HAVE;
}

int renames_watch(struct renames *renames, const char *path)
{
	if (!renames->is_asked_for)
		*renames = (struct renames){true, open_inotify()};
	return is_open(renames) ? inotify_add_watch(renames->inotify, path, IN_MOVE_SELF | IN_DELETE_SELF)
				: NOT_WATCHED;
}

void renames_unwatch(const struct renames *renames, int watch)
{
	if (watch != NOT_WATCHED)
		inotify_rm_watch(renames->inotify, watch);
}

void renames_close(struct renames *renames)
{
	if (is_open(renames))
		close(renames->inotify);
	*renames = (struct renames){0};
}

bool renames_any(void)
{
	return atomic_load_explicit(&is_any, memory_order_relaxed) && atomic_exchange(&is_any, false);
}

bool renames_next(const struct renames *renames, struct rename *rename)
{
	/* No longer than this: of a file itself no name is told. */
	struct inotify_event event;

	if (!is_open(renames) || read(renames->inotify, &event, sizeof(event)) != sizeof(event))
		return false;
	*rename = (struct rename){event.wd, event.mask & IN_IGNORED};
	return true;
}
