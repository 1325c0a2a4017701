/*
 * A lower bound for the cost of a seccomp listener: lets each write to a descriptor above 2 continue at once, without
 * looking at it.
 *
 *   bare_listener COMMAND ARGUMENT...
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

static int install(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
	    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, STDERR_FILENO, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
	const unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_SPEC_ALLOW;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* Answers calls until no process has the filter any more. */
static void answer(int listener)
{
	for (;;) {
		struct seccomp_notif call = {0};

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
			if (errno == EINTR)
				continue;
			return;
		}
		struct seccomp_notif_resp response = {.id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
	}
}

int main(int words, char **word)
{
	_Atomic int *listener =
	    mmap(NULL, sizeof(*listener), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	if (words < 2 || listener == MAP_FAILED)
		errx(2, "no command");
	/* The child shares the table of descriptors, so the listener is available in both. */
	const pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0) {
		const int installed = install();

		atomic_store(listener, installed < 0 ? -1 : installed);
		if (installed >= 0)
			execvp(word[1], word + 1);
		err(127, "%s", word[1]);
	}
	while (child > 0 && atomic_load(listener) == 0)
		sched_yield();
	if (child < 0 || *listener < 0)
		err(1, "no listener");
	ioctl(*listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	answer(*listener);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
