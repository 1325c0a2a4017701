#pragma once

#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr of linux/sched/types.h, a header that conflicts with glibc's sched.h. */
struct SchedulingAttributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

/*
 * Sets the slice of the calling thread, which requires no privilege: daemon/thread_schedule.ts says what for. Linux
 * accepts a slice for a thread without a deadline since 6.12 (857b158dc5e8); older kernels ignore it.
 */
inline void set_time_slice(uint64_t slice_ns)
{
	SchedulingAttributes attributes = {};
	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0)
		return;
	attributes.runtime_ns = slice_ns;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}
