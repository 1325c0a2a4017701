/*
 * Between the scan of /proc and the signal, a process ends and its number comes back as that of another child of the
 * same parent. Prints `kept` or `killed`, and whether a process that is still the same gets the signal. Needs a PID
 * namespace of its own, so that a failure cannot affect processes outside.
 */
#include <sched.h>
#include <stdint.h>

#include "command/process_tree.c"

#include <linux/sched.h>
#include <sys/wait.h>

static pid_t start(pid_t wanted)
{
	struct clone_args arguments = {
	    .exit_signal = SIGCHLD,
	    .set_tid = wanted > 0 ? (uintptr_t)&wanted : 0,
	    .set_tid_size = wanted > 0,
	};
	const pid_t pid = syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (pid == 0)
		for (;;)
			pause();
	/* kill(2) takes negative numbers as process groups. */
	if (pid <= 0 || (wanted > 0 && pid != wanted)) {
		perror("clone3");
		exit(1);
	}
	return pid;
}

static const char *fate_after(pid_t pid, const struct processes *seen)
{
	int status;

	for (size_t i = 0; i < seen->count; i++)
		if (seen->all[i].pid == pid && seen->all[i].is_inside)
			signal_one(&seen->all[i], getpid(), SIGTERM);
	/* A process ends by the first fatal signal that was sent to it, whenever it runs again. */
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return WTERMSIG(status) == SIGTERM ? "killed" : "kept";
}

int main(void)
{
	/* Refuses to run unless it is the first process of its PID namespace. */
	if (getpid() != 1) {
		fputs("not in a PID namespace of its own\n", stderr);
		return 1;
	}
	pid_t pid = start(0);
	struct processes seen = descendants(getpid());

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* Start times in /proc have a resolution of hundredths of a second. */
	usleep(50000);
	start(pid);
	printf("%s ", fate_after(pid, &seen));
	pid = start(0);
	seen = descendants(getpid());
	puts(fate_after(pid, &seen));
	return 0;
}
