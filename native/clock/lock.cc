#include "lock.h"

#include <cerrno>
#include <ctime>

Mutex::Mutex()
{
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

Mutex::~Mutex()
{
	pthread_mutex_destroy(&mutex);
}

void Mutex::lock()
{
	pthread_mutex_lock(&mutex);
}

bool Mutex::try_lock()
{
	return pthread_mutex_trylock(&mutex) == 0;
}

void Mutex::unlock()
{
	pthread_mutex_unlock(&mutex);
}

Condition::Condition()
{
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

Condition::~Condition()
{
	pthread_cond_destroy(&condition);
}

void Condition::notify()
{
	pthread_cond_signal(&condition);
}

void Condition::wait(Mutex &held)
{
	pthread_cond_wait(&condition, &held.mutex);
}

bool Condition::wait_until(Mutex &held, int64_t steady_ns)
{
	constexpr int64_t kSecondNs = 1'000'000'000;
	const timespec until = {steady_ns / kSecondNs, steady_ns % kSecondNs};
	return pthread_cond_timedwait(&condition, &held.mutex, &until) == ETIMEDOUT;
}
