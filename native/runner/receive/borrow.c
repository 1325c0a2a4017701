#include "receive/borrow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/kcmp.h>

#include "identify/observe.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
/* From 6.9 on (64bef697d33b), a pidfd can refer to a thread, and so to the thread's own table of files. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

static bool is_same(pid_t tid, int fd, int file)
{
	return syscall(SYS_kcmp, tid, gettid(), KCMP_FILE, fd, file) == 0;
}

int borrow_file(pid_t tid, int fd)
{
	int thread = syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	const bool is_of_leader = thread < 0 && errno == EINVAL;

	/*
	 * The process is looked up only here: a number that was seen earlier may have been reused by another process.
	 */
	if (is_of_leader)
		thread = syscall(SYS_pidfd_open, observe_process(tid), 0);
	if (thread < 0)
		return -1;
	const int file = syscall(SYS_pidfd_getfd, thread, fd, 0);
	close(thread);
	if (file < 0 || !is_of_leader || is_same(tid, fd, file))
		return file;
	close(file);
	return -1;
}
