#include "kernel.h"
#include "require.h"

#include <cerrno>
#include <ctime>
#include <sys/timex.h>

namespace
{

constexpr int kTries = 5;

int64_t now_ns(clockid_t clock)
{
	timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1'000'000'000ll + time.tv_nsec;
}

} // namespace

/*
 * (into: BigInt64Array of 3 or 4): [realtime, boottime, uncertainty, monotonic]
 *
 *   boot a --- realtime --- boot b
 *
 * realtime is read between a and b, so the offset realtime - (a + b) / 2 is wrong by at most (b - a) / 2. An interrupt
 * between the reads increases that bound: take the best of 5.
 */
Napi::Value read_clocks(const Napi::CallbackInfo &info)
{
	if (!info[0].IsTypedArray() || info[0].As<Napi::TypedArray>().TypedArrayType() != napi_bigint64_array ||
	    info[0].As<Napi::TypedArray>().ElementLength() < 3) {
		throw_type(info.Env(), "Expected 'into' to be a BigInt64Array of at least 3");
		return info.Env().Undefined();
	}
	Napi::BigInt64Array into = info[0].As<Napi::BigInt64Array>();
	for (int i = 0; i < kTries; i++) {
		const int64_t before = now_ns(CLOCK_BOOTTIME);
		const int64_t wall = now_ns(CLOCK_REALTIME);
		const int64_t after = now_ns(CLOCK_BOOTTIME);
		const int64_t uncertainty = (after - before + 1) / 2;
		if (i > 0 && uncertainty >= into[2])
			continue;
		into[0] = wall;
		into[1] = before + (after - before) / 2;
		into[2] = uncertainty;
	}
	if (into.ElementLength() > 3)
		into[3] = now_ns(CLOCK_MONOTONIC);
	return info.Env().Undefined();
}

/* (): the kernel's state of the wall clock */
Napi::Value clock_state(const Napi::CallbackInfo &info)
{
	timex state = {};
	const int result = adjtimex(&state);
	if (result < 0) {
		throw_bpf(info.Env(), "adjtimex", errno);
		return info.Env().Undefined();
	}
	Napi::Object told = Napi::Object::New(info.Env());
	told.Set("synchronized",
		 Napi::Boolean::New(info.Env(), result != TIME_ERROR && (state.status & STA_UNSYNC) == 0));
	told.Set("estimatedErrorUs", Napi::Number::New(info.Env(), state.esterror));
	told.Set("maxErrorUs", Napi::Number::New(info.Env(), state.maxerror));
	return told;
}
