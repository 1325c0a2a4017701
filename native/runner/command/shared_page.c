#include "command/shared_page.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/futex.h>

#include "delay/clock.h"

struct shared *shared_new(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return NULL;
	shared->listener = -1;
	return shared;
}

void shared_free(struct shared *shared)
{
	munmap(shared, sizeof(*shared));
}

void shared_announce(struct shared *shared, enum stage stage)
{
	atomic_store(&shared->stage, stage);
	/* Uses a futex instead of an eventfd, because the filter that was just installed would intercept the write to
	   an eventfd. */
	syscall(SYS_futex, &shared->stage, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool shared_await_stage(struct shared *shared, enum stage stage, uint64_t timeout_ns)
{
	const uint64_t until = clock_ns() + timeout_ns;

	while (atomic_load(&shared->stage) == stage) {
		const uint64_t now = clock_ns();
		if (now >= until)
			return false;
		const struct timespec left = clock_timespec(until - now);
		syscall(SYS_futex, &shared->stage, FUTEX_WAIT, stage, &left, NULL, 0);
	}
	return true;
}
