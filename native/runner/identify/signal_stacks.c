#include "identify/signal_stacks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "delay/clock.h"

#define PAGE_BYTES 4096ull
#define IS_PRESENT (1ull << 63)
/* Limit of one search, in pages. Copying them takes some ten milliseconds, during which the call of a thread waits. */
#define SEARCHED_PAGES_MAX (32ull << 20 >> 12)
#define SHARE_OF_TIME 50
#define PIECE_PAGES 64ull
/* Pieces overlap, so that a frame lies within one of them as a whole. */
#define OVERLAP_BYTES 1024
#define STACK_BYTES_MAX (16ull << 20)
/* The segments of a 64-bit program: CS is 0x33, SS is 0x2b, GS and FS are 0. */
#define SEGMENTS 0x002b000000000033ull

struct search {
	struct process_stacks *found;
	int pages; /* /proc/PID/pagemap */
	uint64_t pages_left;
};

void signal_stacks_init(struct signal_stacks *stacks)
{
	*stacks = (struct signal_stacks){0};
	pthread_mutex_init(&stacks->lock, NULL);
}

static struct process_stacks *stacks_of(struct signal_stacks *stacks, uint32_t process)
{
	for (unsigned i = 0; i < SEARCHED_PROCESSES_MAX; i++)
		if (stacks->processes[i].process == process)
			return &stacks->processes[i];
	struct process_stacks *taken = &stacks->processes[stacks->next++ % SEARCHED_PROCESSES_MAX];
	*taken = (struct process_stacks){.process = process};
	return taken;
}

size_t signal_stacks_get(struct signal_stacks *stacks, uint32_t process, uint64_t ends[static SIGNAL_STACKS_MAX])
{
	pthread_mutex_lock(&stacks->lock);
	const struct process_stacks *known = stacks_of(stacks, process);
	const size_t count = known->count;
	memcpy(ends, known->ends, count * sizeof(*ends));
	pthread_mutex_unlock(&stacks->lock);
	return count;
}

#if defined(__x86_64__)

static void add(struct process_stacks *found, uint64_t end)
{
	for (uint32_t i = 0; i < found->count; i++)
		if (found->ends[i] == end)
			return;
	if (found->count < SIGNAL_STACKS_MAX)
		found->ends[found->count++] = end;
}

/* `memory` is a copy of the memory at the address `base`. */
static void find_frames(struct process_stacks *found, const char *memory, size_t bytes, uint64_t base)
{
	const size_t segments_at = offsetof(ucontext_t, uc_mcontext) + REG_CSGSFS * sizeof(greg_t);

	for (size_t at = segments_at; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, memory + at, sizeof(word));
		if (word != SEGMENTS)
			continue;
		stack_t stack;
		const uint64_t frame = base + at - segments_at;
		memcpy(&stack, memory + at - segments_at + offsetof(ucontext_t, uc_stack), sizeof(stack));
		const uint64_t from = (uint64_t)stack.ss_sp;
		if (stack.ss_size <= STACK_BYTES_MAX && frame >= from && frame - from < stack.ss_size)
			add(found, from + stack.ss_size);
	}
}

/* Reads only pages that are present, because reading others would allocate them. */
static void search_pages(struct search *search, uint64_t from, uint64_t page_count)
{
	static char memory[PIECE_PAGES * PAGE_BYTES + OVERLAP_BYTES];
	const uint64_t to = from + page_count * PAGE_BYTES;

	for (uint64_t at = from; at < to; at += PIECE_PAGES * PAGE_BYTES) {
		const uint64_t wanted = to - at < sizeof(memory) ? to - at : sizeof(memory);
		const struct iovec here = {memory, wanted}, there = {(void *)at, wanted};
		const ssize_t bytes = process_vm_readv(search->found->process, &here, 1, &there, 1, 0);

		if (bytes > 0)
			find_frames(search->found, memory, bytes, at);
	}
}

static void search_range(struct search *search, uint64_t from, uint64_t to)
{
	uint64_t entries[PIECE_PAGES];

	for (uint64_t at = from; at < to && search->pages_left > 0;) {
		const uint64_t left = (to - at) / PAGE_BYTES;
		const uint64_t asked = left < PIECE_PAGES ? left : PIECE_PAGES;
		const ssize_t bytes =
		    pread(search->pages, entries, asked * sizeof(*entries), at / PAGE_BYTES * sizeof(*entries));
		const uint64_t count = bytes < 0 ? 0 : bytes / sizeof(*entries);

		if (count == 0)
			return;
		for (uint64_t i = 0, first = 0; i <= count; i++) {
			if (i < count && entries[i] & IS_PRESENT)
				continue;
			const uint64_t present = i - first;
			if (present > 0)
				search_pages(search, at + first * PAGE_BYTES, present);
			search->pages_left -= present < search->pages_left ? present : search->pages_left;
			first = i + 1;
		}
		at += count * PAGE_BYTES;
	}
}

static void search_process(struct process_stacks *found)
{
	struct search search = {found, -1, SEARCHED_PAGES_MAX};
	char name[32], line[512];

	snprintf(name, sizeof(name), "/proc/%u/pagemap", found->process);
	search.pages = open(name, O_RDONLY | O_CLOEXEC);
	snprintf(name, sizeof(name), "/proc/%u/maps", found->process);
	FILE *maps = search.pages < 0 ? NULL : fopen(name, "re");
	while (maps && search.pages_left > 0 && fgets(line, sizeof(line), maps)) {
		uint64_t from, to;

		/* A line longer than `line` goes on with the rest of a name, which does not begin like a range. */
		if (sscanf(line, "%lx-%lx rw", &from, &to) == 2 && strstr(line, " rw-p "))
			search_range(&search, from, to);
	}
	if (maps)
		fclose(maps);
	if (search.pages >= 0)
		close(search.pages);
}

size_t signal_stacks_search(struct signal_stacks *stacks, uint32_t process)
{
	pthread_mutex_lock(&stacks->lock);
	struct process_stacks *found = stacks_of(stacks, process);
	const uint64_t from_ns = clock_ns();
	const uint32_t known = found->count;
	if (from_ns >= found->searched_until_ns) {
		search_process(found);
		const uint64_t now_ns = clock_ns();
		found->searched_until_ns = now_ns + (now_ns - from_ns) * SHARE_OF_TIME;
	}
	const size_t added = found->count - known;
	pthread_mutex_unlock(&stacks->lock);
	return added;
}

#else

size_t signal_stacks_search(struct signal_stacks *stacks, uint32_t process)
{
	(void)stacks;
	(void)process;
	return 0;
}

#endif
