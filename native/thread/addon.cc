#include <cstdint>
#include <napi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * How the kernel schedules threads of this process. What daemon/replay/thread_schedule.ts declares; nothing here takes a
 * privilege, and false says that this kernel does not do it.
 */

namespace
{

/* struct sched_attr of linux/sched/types.h, whose header does not go together with glibc's sched.h. */
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

bool read_attributes(Attributes &attributes)
{
	return syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) == 0;
}

/* Linux 6.12 (857b158dc5e8) takes it of a thread that has no deadline; others ignore it, so it is read back. */
Napi::Value set_time_slice(const Napi::CallbackInfo &info)
{
	const auto slice_ns = static_cast<uint64_t>(info[0].As<Napi::Number>().Int64Value());
	Attributes attributes = {};
	if (!read_attributes(attributes))
		return Napi::Boolean::New(info.Env(), false);
	attributes.runtime_ns = slice_ns;
	const bool is_set = syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 && read_attributes(attributes);
	return Napi::Boolean::New(info.Env(), is_set && attributes.runtime_ns == slice_ns);
}

Napi::Value set_timer_slack(const Napi::CallbackInfo &info)
{
	const auto slack_ns = static_cast<unsigned long>(info[0].As<Napi::Number>().Int64Value());
	return Napi::Boolean::New(info.Env(), prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0) == 0);
}

/* 0 is the thread that calls. There is no way back without a privilege. */
Napi::Value set_idle_policy(const Napi::CallbackInfo &info)
{
	const auto tid = static_cast<pid_t>(info[0].As<Napi::Number>().Int32Value());
	const sched_param parameters = {};
	return Napi::Boolean::New(info.Env(), sched_setscheduler(tid, SCHED_IDLE, &parameters) == 0);
}

Napi::Object start(Napi::Env env, Napi::Object exports)
{
	exports.Set("setTimeSlice", Napi::Function::New<set_time_slice>(env, "setTimeSlice"));
	exports.Set("setTimerSlack", Napi::Function::New<set_timer_slack>(env, "setTimerSlack"));
	exports.Set("setIdlePolicy", Napi::Function::New<set_idle_policy>(env, "setIdlePolicy"));
	return exports;
}

} // namespace

NODE_API_MODULE(thread, start)
