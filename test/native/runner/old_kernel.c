/*
 * Runs a command as on a kernel before 5.19, in a container: no WAIT_KILLABLE_RECV, no SYNC_WAKE_UP, no pidfd_getfd. A
 * filter cannot hide features, but it can refuse the calls that request them.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#define FLAG_WAIT_KILLABLE_RECV (1u << 5)
#define IOCTL_NOTIF_SET_FLAGS 0x40082104
#define ARGUMENT(index) (offsetof(struct seccomp_data, args) + 8 * (index))

int main(int words, char **word)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 438 /* pidfd_getfd */, 7, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 2),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(1)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IOCTL_NOTIF_SET_FLAGS, 5, 3),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 2),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(1)),
	    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FLAG_WAIT_KILLABLE_RECV, 2, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	if (words < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		perror("old_kernel");
		return 1;
	}
	execvp(word[1], word + 1);
	perror(word[1]);
	return 127;
}
