#pragma once

#include <chrono>
#include <cstdint>

/* CLOCK_MONOTONIC, nanoseconds. */
inline int64_t steady_ns()
{
	return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* A turn of a loop that waits without sleeping. */
inline void pause_cpu()
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}
