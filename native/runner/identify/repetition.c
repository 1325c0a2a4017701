#include "identify/repetition.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "delay/clock.h"
#include "identify/keys.h"

#if defined(__x86_64__)

/* The frame lies below the state of the vector registers, which takes up to 11 KB with AMX. */
#define PIECE_BYTES 1024
#define PIECES 14
#define SYSCALL_BYTES 2
/*
 * The part of a frame from the registers on: struct sigcontext_64, the mask and siginfo. The sender of the signal in
 * siginfo tells apart frames of the same place in a loop.
 */
#define FRAME_BYTES (256 + 8 + 128)
/*
 * The file is read again: while a thread waits for a CPU to resume its wait, the file says that the thread is running.
 */
#define LOOKS 100
#define LOOK_AGAIN_NS (100 * NS_PER_US)

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
		nanosleep(&(const struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
	}
	return false;
}

static uint64_t word_at(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static bool is_before_call(const char *registers, const struct seccomp_data *data, uint64_t stack_pointer)
{
	const struct {
		int index;
		uint64_t value;
	} expected[] = {
	    {REG_RSP, stack_pointer}, {REG_RIP, data->instruction_pointer - SYSCALL_BYTES},
	    {REG_RAX, data->nr},      {REG_RDI, data->args[0]},
	    {REG_RSI, data->args[1]}, {REG_RDX, data->args[2]},
	};

	for (unsigned i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		if (word_at(registers + expected[i].index * sizeof(greg_t)) != expected[i].value)
			return false;
	return true;
}

/* Searches the frame below the address at which the kernel began to write it. */
static uint32_t search_frame(uint32_t tid, uint64_t below, const struct seccomp_data *data, uint64_t stack_pointer)
{
	char stack[PIECES * PIECE_BYTES];
	struct iovec here[PIECES], there[PIECES];

	/* The upper pieces come first: the stack may end within the lower ones. */
	for (unsigned i = 0; i < PIECES; i++) {
		here[i] = (struct iovec){stack + sizeof(stack) - (i + 1) * PIECE_BYTES, PIECE_BYTES};
		there[i] = (struct iovec){(char *)below - (i + 1) * PIECE_BYTES, PIECE_BYTES};
	}
	const ssize_t bytes = process_vm_readv(tid, here, PIECES, there, PIECES, 0);
	/* Frames are aligned to 16, but the stack pointer need not be. */
	const char *end = stack + sizeof(stack) - below % 8;
	for (const char *at = end - FRAME_BYTES; at >= stack + sizeof(stack) - bytes; at -= 8)
		if (is_before_call(at, data, stack_pointer))
			return (uint32_t)hash_bytes(at, FRAME_BYTES) >> 1 | 1;
	return 0;
}

static uint32_t search_signal_stacks(struct signal_stacks *stacks, uint32_t process, uint32_t tid,
				     const struct seccomp_data *data, uint64_t stack_pointer)
{
	uint64_t ends[SIGNAL_STACKS_MAX];
	const size_t count = signal_stacks_get(stacks, process, ends);

	for (size_t i = 0; i < count; i++) {
		const uint32_t repetition = search_frame(tid, ends[i], data, stack_pointer);
		if (repetition)
			return repetition;
	}
	return 0;
}

uint32_t repetition_of(struct signal_stacks *stacks, uint32_t process, uint32_t tid, const struct seccomp_data *data)
{
	uint64_t stack_pointer;

	if (!read_stack_pointer(tid, &stack_pointer))
		return 0;
	uint32_t repetition = search_frame(tid, stack_pointer, data, stack_pointer);
	if (!repetition)
		repetition = search_signal_stacks(stacks, process, tid, data, stack_pointer);
	if (!repetition && signal_stacks_search(stacks, process) > 0)
		repetition = search_signal_stacks(stacks, process, tid, data, stack_pointer);
	return repetition;
}

#else

uint32_t repetition_of(struct signal_stacks *stacks, uint32_t process, uint32_t tid, const struct seccomp_data *data)
{
	(void)stacks;
	(void)process;
	(void)tid;
	(void)data;
	return 0;
}

#endif
