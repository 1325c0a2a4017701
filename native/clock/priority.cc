#include "priority.h"

#include "../base/time_slice.h"

#include <cstdint>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace
{

constexpr int kNice = -10;
/* The shortest slice that the kernel accepts. */
constexpr uint64_t kSliceNs = 100'000;

} // namespace

bool raise_priority()
{
	const sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0)
		return true;
	/* Linux sets the nice value for the thread alone. */
	setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
	set_time_slice(kSliceNs);
	return false;
}
