#ifndef KREPLAY_RUNNER_SYSCALLS_H
#define KREPLAY_RUNNER_SYSCALLS_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/audit.h>

#include "gen/format.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "kreplay-runner knows x86-64 and arm64"
#endif

/* Ways of writing that the plan cannot cover, but only count. */
enum uncovered {
	UNCOVERED_IO_URING,
	UNCOVERED_IO_SUBMIT,
	UNCOVERED_SENDFILE,
	UNCOVERED_SPLICE,
	UNCOVERED_COMPAT,
	UNCOVERED_MMAP,
	/* The command installs its own listener: there can be only one, and this program has it. */
	UNCOVERED_SECCOMP_LISTENER,
	/* Counts files, not calls: the recording has one name for this file and another one. */
	UNCOVERED_UNCLEAR_NAME,
	/* Counts files that stand for the same file of the plan as another file does. */
	UNCOVERED_SHARED_NAME,
	/* Counts calls that may have failed with EINTR, as a signal came before they were received. */
	UNCOVERED_INTERRUPTED,
	UNCOVERED_COUNT,
};

extern const char *const UNCOVERED_NAMES[UNCOVERED_COUNT];

struct planned_syscall {
	int number;
	uint16_t op;
};

struct uncovered_syscall {
	int number;
	enum uncovered what;
};

extern const struct planned_syscall PLANNED_SYSCALLS[OP_COUNT];
extern const struct uncovered_syscall UNCOVERED_SYSCALLS[];
extern const unsigned UNCOVERED_SYSCALL_COUNT;
/* The write and sync calls of the other architecture whose programs run here. */
extern const int COMPAT_SYSCALLS[];
extern const unsigned COMPAT_SYSCALL_COUNT;

static inline bool op_is_sync(unsigned op)
{
	return op >= OP_FSYNC;
}

/* Masks of 1 << OP_*. */
#define ALL_WRITES ((1u << OP_FSYNC) - 1)
#define ALL_SYNCS ((1u << OP_COUNT) - 1 - ALL_WRITES)

/* Returns whether the first argument is a descriptor. */
static inline bool op_has_fd(unsigned op)
{
	return op != OP_MSYNC && op != OP_SYNC;
}

/* Programs for the x32 ABI make native calls with this bit in the number; arm64 has none. */
#define X32_BIT 0x40000000
extern const int X32_SYSCALLS[];
extern const unsigned X32_SYSCALL_COUNT;

/* Returns an OP_*, or -1. */
int syscall_op(int number);
/* Must be called only for calls that the filter reports and that have no op. */
enum uncovered syscall_uncovered(uint32_t arch, int number);

#endif
