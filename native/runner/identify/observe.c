#include "identify/observe.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/format.h"

static bool read_text(uint32_t tid, const char *what, char *text, size_t text_bytes)
{
	char name[48];

	snprintf(name, sizeof(name), "/proc/%u/%s", tid, what);
	const int file = open(name, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	const ssize_t bytes = read(file, text, text_bytes - 1);
	close(file);
	text[bytes > 0 ? bytes : 0] = 0;
	return bytes > 0;
}

bool observe_comm(uint32_t tid, char comm[static COMM_MAX])
{
	if (!read_text(tid, "comm", comm, COMM_MAX))
		return false;
	comm[strcspn(comm, "\n")] = 0;
	return true;
}

/* A newline in the command name is escaped in that file. */
static uint64_t number_after(const char *text, const char *name, int base)
{
	const char *line = strstr(text, name);

	return line ? strtoull(line + strlen(name), NULL, base) : 0;
}

uint32_t observe_process(uint32_t tid)
{
	bool handles_signals;

	return observe_process_and_signals(tid, &handles_signals);
}

uint32_t observe_process_and_signals(uint32_t tid, bool *handles_signals)
{
	/*
	 * A thread causes these signals by what it does, so none comes while it waits. C libraries handle 32 to 34 for
	 * themselves.
	 */
	static const int NOT_WHILE_WAITING[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, 32, 33, 34};
	char text[8192];

	*handles_signals = false;
	if (!read_text(tid, "status", text, sizeof(text)))
		return 0;
	uint64_t handled = number_after(text, "\nSigCgt:", 16);
	for (unsigned i = 0; i < sizeof(NOT_WHILE_WAITING) / sizeof(*NOT_WHILE_WAITING); i++)
		handled &= ~(1ull << (NOT_WHILE_WAITING[i] - 1));
	*handles_signals = handled != 0;
	return number_after(text, "\nTgid:", 10);
}

ssize_t observe_mapped(uint32_t tid, uint64_t address, char *text, size_t text_bytes)
{
	char name[48], line[PATH_MAX + 128];
	ssize_t bytes = -1;

	snprintf(name, sizeof(name), "/proc/%u/maps", tid);
	FILE *maps = fopen(name, "re");
	if (!maps)
		return -1;
	while (bytes < 0 && fgets(line, sizeof(line), maps)) {
		unsigned long from, end;
		const char *mapped = strchr(line, '/');

		if (sscanf(line, "%lx-%lx", &from, &end) != 2 || address < from || address >= end || !mapped)
			continue;
		bytes = strnlen(mapped, text_bytes);
		bytes -= bytes > 0 && mapped[bytes - 1] == '\n';
		memcpy(text, mapped, bytes);
	}
	fclose(maps);
	return bytes;
}

bool observe_has_ended(uint32_t tid)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%u", tid);
	return access(name, F_OK) < 0;
}

bool observe_iovec(uint32_t tid, uint64_t iovec, uint64_t count, struct iovec parts[static IOV_MAX])
{
	if (count > IOV_MAX)
		return false;
	const struct iovec here = {parts, count * sizeof(*parts)};
	const struct iovec there = {(void *)iovec, here.iov_len};
	return process_vm_readv(tid, &here, 1, &there, 1, 0) == (ssize_t)here.iov_len;
}

uint32_t observe_iovec_bytes(uint32_t tid, uint64_t iovec, uint64_t count)
{
	struct iovec parts[IOV_MAX];
	uint64_t bytes = 0;

	if (!observe_iovec(tid, iovec, count, parts))
		return SIZE_UNKNOWN;
	for (uint64_t i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	return bytes < SIZE_UNKNOWN ? bytes : SIZE_UNKNOWN;
}
