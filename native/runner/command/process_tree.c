#include "command/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct process {
	pid_t pid;
	pid_t parent;
	pid_t group;
	uint64_t started; /* in ticks since the boot */
	bool is_ended;
	bool is_inside;
};

struct processes {
	struct process *all;
	size_t count;
	size_t room;
};

static bool read_process(pid_t pid, struct process *process)
{
	char name[32], text[512];
	char state;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	const int file = open(name, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	const ssize_t bytes = read(file, text, sizeof(text) - 1);
	close(file);
	if (bytes <= 0)
		return false;
	text[bytes] = 0;
	/* Fields are parsed after the command name, which may contain parentheses. */
	const char *rest = strrchr(text, ')');
	*process = (struct process){.pid = pid};
	/* The start time is the 22nd field, the command name the second. */
	if (!rest ||
	    sscanf(rest + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
		   &state, &process->parent, &process->group, &process->started) != 4)
		return false;
	process->is_ended = state == 'Z' || state == 'X';
	return true;
}

static int by_pid(const void *left, const void *right)
{
	const struct process *a = left, *b = right;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

static void mark_descendants(struct processes *list, pid_t root)
{
	if (list->count > 0)
		qsort(list->all, list->count, sizeof(*list->all), by_pid);
	for (bool found = true; found;) {
		found = false;
		for (size_t i = 0; i < list->count; i++) {
			struct process *process = &list->all[i];
			const struct process wanted = {.pid = process->parent};

			if (process->is_inside)
				continue;
			const struct process *parent = bsearch(&wanted, list->all, list->count, sizeof(wanted), by_pid);
			if (process->parent == root || (parent && parent->is_inside))
				process->is_inside = found = true;
		}
	}
}

static struct processes descendants(pid_t root)
{
	struct processes list = {0};
	DIR *folder = opendir("/proc");
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		const pid_t pid = atoi(entry->d_name);

		if (list.count == list.room) {
			const size_t room = list.room ? list.room * 2 : 256;
			struct process *all = realloc(list.all, room * sizeof(*all));
			if (!all)
				break;
			list.all = all;
			list.room = room;
		}
		if (pid > 0 && read_process(pid, &list.all[list.count]))
			list.count++;
	}
	if (folder)
		closedir(folder);
	mark_descendants(&list, root);
	return list;
}

/*
 * Returns whether the pid still belongs to the same process. The caller opens a pidfd before this comparison, so that
 * the pidfd refers to the compared process. A process whose parent has ended is a child of `root`.
 */
static bool is_still(const struct process *process, pid_t root)
{
	struct process now;

	return read_process(process->pid, &now) && now.started == process->started &&
	       (now.parent == process->parent || now.parent == root);
}

static void signal_one(const struct process *process, pid_t root, int signal)
{
	const int opened = syscall(SYS_pidfd_open, process->pid, 0);
	const bool is_gone = opened < 0 && errno == ESRCH;

	if (!is_gone && is_still(process, root)) {
		if (opened >= 0)
			syscall(SYS_pidfd_send_signal, opened, signal, NULL, 0);
		else
			kill(process->pid, signal); /* the kernel cannot open a pidfd */
	}
	if (opened >= 0)
		close(opened);
}

void process_tree_signal(pid_t root, pid_t group, int signal)
{
	if (group > 0)
		kill(-group, signal);
	struct processes list = descendants(root);
	for (size_t i = 0; i < list.count; i++)
		if (list.all[i].is_inside && !list.all[i].is_ended && list.all[i].group != group)
			signal_one(&list.all[i], root, signal);
	free(list.all);
}

unsigned process_tree_count(pid_t root)
{
	struct processes list = descendants(root);
	unsigned count = 0;

	for (size_t i = 0; i < list.count; i++)
		count += list.all[i].is_inside && !list.all[i].is_ended;
	free(list.all);
	return count;
}
