#include "priority.h"

#include <cstdint>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace
{

constexpr int kNice = -10;
constexpr uint64_t kSliceNs = 100'000;

/* struct sched_attr of linux/sched/types.h, a header that conflicts with glibc's sched.h. */
struct SchedulingAttributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

/*
 * The shortest slice: daemon/thread_schedule.ts says what for. Linux accepts a slice for a thread without a deadline
 * since 6.12 (857b158dc5e8); older kernels ignore it.
 */
void shorten_slice()
{
	SchedulingAttributes attributes = {};
	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0)
		return;
	attributes.runtime_ns = kSliceNs;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

} // namespace

bool raise_priority()
{
	const sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0)
		return true;
	/* Linux sets it for the thread alone. */
	setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
	shorten_slice();
	return false;
}
