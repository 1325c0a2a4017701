#include <cstdint>
#include <napi.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Sets scheduling parameters of the calling thread. daemon/thread_schedule.ts declares the function; it requires no
 * privilege, and a parameter that the running kernel does not support stays unchanged.
 */

namespace
{

/* struct sched_attr of linux/sched/types.h, a header that conflicts with glibc's sched.h. */
struct Attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns;
	uint64_t deadline_ns;
	uint64_t period_ns;
};

/* Linux accepts a slice for a thread without a deadline since 6.12 (857b158dc5e8); older kernels ignore it. */
void set_time_slice(const Napi::CallbackInfo &info)
{
	Attributes attributes = {};
	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0)
		return;
	attributes.runtime_ns = static_cast<uint64_t>(info[0].As<Napi::Number>().Int64Value());
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

Napi::Object start(Napi::Env env, Napi::Object exports)
{
	exports.Set("setTimeSlice", Napi::Function::New<set_time_slice>(env, "setTimeSlice"));
	return exports;
}

} // namespace

NODE_API_MODULE(thread, start)
