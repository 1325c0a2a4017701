#include "identify/repetition.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "identify/keys.h"

#if defined(__x86_64__)

/* The frame lies below the state of the vector registers, which takes up to 11 KB with AMX. */
#define PIECE_BYTES 1024
#define PIECES 16
#define SYSCALL_BYTES 2
/* A thread that was just received may not have left its CPU yet: the file then says that it is running. */
#define LOOKS 20

static bool read_stack_pointer(uint32_t tid, uint64_t *stack_pointer)
{
	char name[32], text[256];

	snprintf(name, sizeof(name), "/proc/%u/syscall", tid);
	for (int look = 0; look < LOOKS; look++) {
		const int file = open(name, O_RDONLY | O_CLOEXEC);
		const ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

		if (file >= 0)
			close(file);
		if (bytes <= 0)
			return false;
		text[bytes] = 0;
		/* The number, six arguments, the stack pointer and the instruction pointer. */
		if (sscanf(text, "%*d %*x %*x %*x %*x %*x %*x %lx", stack_pointer) == 1)
			return true;
		sched_yield();
	}
	return false;
}

static bool is_before_call(const greg_t *registers, const struct seccomp_data *data, uint64_t stack_pointer)
{
	const __u64 *arguments = data->args;

	return (uint64_t)registers[REG_RIP] == data->instruction_pointer - SYSCALL_BYTES &&
	       (uint64_t)registers[REG_RSP] == stack_pointer && registers[REG_RAX] == data->nr &&
	       (uint64_t)registers[REG_RDI] == arguments[0] && (uint64_t)registers[REG_RSI] == arguments[1] &&
	       (uint64_t)registers[REG_RDX] == arguments[2];
}

uint64_t repetition_of(uint32_t tid, const struct seccomp_data *data)
{
	char stack[PIECES * PIECE_BYTES];
	struct iovec here[PIECES], there[PIECES];
	uint64_t stack_pointer;

	if (!read_stack_pointer(tid, &stack_pointer))
		return 0;
	/* The upper pieces come first: the stack may end within the lower ones. */
	for (unsigned i = 0; i < PIECES; i++) {
		here[i] = (struct iovec){stack + sizeof(stack) - (i + 1) * PIECE_BYTES, PIECE_BYTES};
		there[i] = (struct iovec){(char *)stack_pointer - (i + 1) * PIECE_BYTES, PIECE_BYTES};
	}
	const ssize_t bytes = process_vm_readv(tid, here, PIECES, there, PIECES, 0);
	/* Frames are aligned to 16, but the stack pointer need not be. */
	const size_t aligned = stack_pointer % 8;
	for (size_t at = sizeof(gregset_t); bytes > 0 && at + aligned <= (size_t)bytes; at += 8) {
		gregset_t registers;

		memcpy(registers, stack + sizeof(stack) - aligned - at, sizeof(registers));
		if (is_before_call(registers, data, stack_pointer))
			return hash_bytes(stack + sizeof(stack) - bytes, bytes) | 1;
	}
	return 0;
}

#else

uint64_t repetition_of(uint32_t tid, const struct seccomp_data *data)
{
	(void)tid;
	(void)data;
	return 0;
}

#endif
