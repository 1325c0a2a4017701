#include "seccomp/syscalls.h"

#include <sys/syscall.h>

const char *const UNCOVERED_NAMES[UNCOVERED_COUNT] = {
    [UNCOVERED_IO_URING] = "io_uring",
    [UNCOVERED_IO_SUBMIT] = "io_submit",
    [UNCOVERED_SENDFILE] = "sendfile",
    [UNCOVERED_SPLICE] = "splice",
    [UNCOVERED_COMPAT] = "compat",
    [UNCOVERED_MMAP] = "mmap",
    [UNCOVERED_SECCOMP_LISTENER] = "seccomp_listener",
    [UNCOVERED_UNCLEAR_NAME] = "unclear_name",
    [UNCOVERED_SHARED_NAME] = "shared_name",
    [UNCOVERED_INTERRUPTED] = "interrupted",
};

const struct planned_syscall PLANNED_SYSCALLS[OP_COUNT] = {
    {SYS_write, OP_WRITE},         {SYS_pwrite64, OP_PWRITE64},
    {SYS_writev, OP_WRITEV},       {SYS_pwritev, OP_PWRITEV},
    {SYS_pwritev2, OP_PWRITEV2},   {SYS_fsync, OP_FSYNC},
    {SYS_fdatasync, OP_FDATASYNC}, {SYS_sync_file_range, OP_SYNC_FILE_RANGE},
    {SYS_msync, OP_MSYNC},         {SYS_syncfs, OP_SYNCFS},
    {SYS_sync, OP_SYNC},
};

/* mmap and seccomp are not here: the filter looks at their arguments. */
const struct uncovered_syscall UNCOVERED_SYSCALLS[] = {
    {SYS_io_uring_setup, UNCOVERED_IO_URING}, {SYS_io_submit, UNCOVERED_IO_SUBMIT},
    {SYS_sendfile, UNCOVERED_SENDFILE},       {SYS_splice, UNCOVERED_SPLICE},
    {SYS_vmsplice, UNCOVERED_SPLICE},         {SYS_copy_file_range, UNCOVERED_SPLICE},
};
const unsigned UNCOVERED_SYSCALL_COUNT = sizeof(UNCOVERED_SYSCALLS) / sizeof(*UNCOVERED_SYSCALLS);

/* The numbers are from arch/x86/entry/syscalls/syscall_32.tbl, and include/uapi/asm-generic for 32-bit arm. */
#if defined(__x86_64__)
const int COMPAT_SYSCALLS[] = {4, 36, 118, 144, 146, 148, 181, 314, 334, 344, 379};
/* arch/x86/entry/syscalls/syscall_64.tbl: calls with pointers in memory have their own numbers, from 512 on. */
const int X32_SYSCALLS[] = {1, 18, 26, 74, 75, 162, 277, 306, 516, 535, 547};
const unsigned X32_SYSCALL_COUNT = sizeof(X32_SYSCALLS) / sizeof(*X32_SYSCALLS);
#else
const int COMPAT_SYSCALLS[] = {4, 36, 118, 144, 146, 148, 181, 341, 362, 373, 393};
const int X32_SYSCALLS[] = {0};
const unsigned X32_SYSCALL_COUNT = 0;
#endif
const unsigned COMPAT_SYSCALL_COUNT = sizeof(COMPAT_SYSCALLS) / sizeof(*COMPAT_SYSCALLS);

int syscall_op(int number)
{
	for (unsigned i = 0; i < OP_COUNT; i++)
		if (PLANNED_SYSCALLS[i].number == number)
			return PLANNED_SYSCALLS[i].op;
	return -1;
}

enum uncovered syscall_uncovered(uint32_t arch, int number)
{
	if (arch != NATIVE_ARCH || number & X32_BIT)
		return UNCOVERED_COMPAT;
	if (number == SYS_seccomp)
		return UNCOVERED_SECCOMP_LISTENER;
	for (unsigned i = 0; i < UNCOVERED_SYSCALL_COUNT; i++)
		if (UNCOVERED_SYSCALLS[i].number == number)
			return UNCOVERED_SYSCALLS[i].what;
	return UNCOVERED_MMAP;
}
