/*
 * Builds the seccomp filter, which decides as follows:
 *
 *   foreign arch, or x32? -- one of its write calls? -> report, to be counted;  else allow
 *   planned call? -- fd > 2, or may a file of the plan be there?  -> report
 *   uncovered call? -> report, to be counted
 *   mmap of a file, writable and shared? -> report, to be counted
 *   seccomp for a listener? -> report, to be counted
 *   allow
 */
#include "seccomp/filter.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <linux/seccomp.h>

#include "seccomp/notify.h"
#include "seccomp/syscalls.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

static void add(struct filter *filter, struct sock_filter instruction)
{
	assert(filter->program.len < FILTER_LENGTH_MAX);
	filter->code[filter->program.len++] = instruction;
}

static void load(struct filter *filter, unsigned offset)
{
	add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

/* Skips the next `skipped` instructions unless the test holds. */
static void unless_skip(struct filter *filter, unsigned test, uint32_t value, unsigned skipped)
{
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, skipped));
}

static void answer(struct filter *filter, uint32_t action)
{
	add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static void report_number(struct filter *filter, int number)
{
	unless_skip(filter, BPF_JEQ, number, 1);
	answer(filter, SECCOMP_RET_USER_NOTIF);
}

/* Offset of the low half of an argument: the machine is little-endian. */
static unsigned argument(unsigned index)
{
	return offsetof(struct seccomp_data, args) + 8 * index;
}

static void report_planned(struct filter *filter, const struct planned_syscall *planned, uint32_t standard_op_mask)
{
	if (standard_op_mask & 1u << planned->op || !op_has_fd(planned->op)) {
		report_number(filter, planned->number);
		return;
	}
	unless_skip(filter, BPF_JEQ, planned->number, 4);
	load(filter, argument(0));
	unless_skip(filter, BPF_JGT, 2, 1);
	answer(filter, SECCOMP_RET_USER_NOTIF);
	answer(filter, SECCOMP_RET_ALLOW);
}

static void report_shared_mappings(struct filter *filter)
{
	unless_skip(filter, BPF_JEQ, SYS_mmap, 7);
	load(filter, argument(2));
	unless_skip(filter, BPF_JSET, PROT_WRITE, 4);
	load(filter, argument(3));
	unless_skip(filter, BPF_JSET, MAP_SHARED, 2);
	/* MAP_PRIVATE has no bit in common with MAP_SHARED; MAP_SHARED_VALIDATE has. */
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0));
	answer(filter, SECCOMP_RET_USER_NOTIF);
	answer(filter, SECCOMP_RET_ALLOW);
}

static void report_x32(struct filter *filter)
{
	if (X32_SYSCALL_COUNT == 0)
		return;
	unless_skip(filter, BPF_JSET, X32_BIT, 2 * X32_SYSCALL_COUNT + 1);
	for (unsigned i = 0; i < X32_SYSCALL_COUNT; i++)
		report_number(filter, X32_BIT | X32_SYSCALLS[i]);
	answer(filter, SECCOMP_RET_ALLOW);
}

/* The kernel refuses a second listener, so it is only counted, and the report can give the reason. */
static void report_own_listeners(struct filter *filter)
{
	unless_skip(filter, BPF_JEQ, SYS_seccomp, 6);
	load(filter, argument(0));
	unless_skip(filter, BPF_JEQ, SECCOMP_SET_MODE_FILTER, 3);
	load(filter, argument(1));
	unless_skip(filter, BPF_JSET, SECCOMP_FILTER_FLAG_NEW_LISTENER, 1);
	answer(filter, SECCOMP_RET_USER_NOTIF);
	answer(filter, SECCOMP_RET_ALLOW);
}

void filter_make(struct filter *filter, const struct filter_choice *choice)
{
	filter->program = (struct sock_fprog){.len = 0, .filter = filter->code};
	const unsigned compat = choice->uncovered ? COMPAT_SYSCALL_COUNT : 0;

	load(filter, offsetof(struct seccomp_data, arch));
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 2 + 2 * compat, 0));
	load(filter, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < compat; i++)
		report_number(filter, COMPAT_SYSCALLS[i]);
	answer(filter, SECCOMP_RET_ALLOW);

	load(filter, offsetof(struct seccomp_data, nr));
	if (choice->uncovered)
		report_x32(filter);
	for (unsigned i = 0; i < OP_COUNT; i++)
		if (choice->op_mask & 1u << PLANNED_SYSCALLS[i].op)
			report_planned(filter, &PLANNED_SYSCALLS[i], choice->standard_op_mask);
	if (choice->uncovered) {
		for (unsigned i = 0; i < UNCOVERED_SYSCALL_COUNT; i++)
			report_number(filter, UNCOVERED_SYSCALLS[i].number);
		report_shared_mappings(filter);
		report_own_listeners(filter);
	}
	answer(filter, SECCOMP_RET_ALLOW);
}

static int install(struct filter *filter, bool *wait_killable)
{
	const unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
	long listener =
	    seccomp(SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &filter->program);

	*wait_killable = listener >= 0;
	if (listener < 0 && errno == EINVAL)
		listener = seccomp(SECCOMP_SET_MODE_FILTER, flags, &filter->program);
	return listener;
}

int filter_install(struct filter *filter, bool *wait_killable)
{
	const int listener = install(filter, wait_killable);

	if (listener >= 0 || errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return listener;
	return install(filter, wait_killable);
}
