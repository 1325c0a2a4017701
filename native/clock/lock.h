#pragma once

#include <cstdint>
#include <pthread.h>

/*
 * A mutex with priority inheritance: the player's thread may have a real-time priority, and would otherwise wait until
 * the kernel runs an ordinary thread that was interrupted while it held the mutex.
 */
class Mutex
{
      public:
	Mutex();
	~Mutex();
	Mutex(const Mutex &) = delete;
	Mutex &operator=(const Mutex &) = delete;
	void lock();
	bool try_lock();
	void unlock();

      private:
	friend class Condition;
	pthread_mutex_t mutex;
};

class Condition
{
      public:
	Condition();
	~Condition();
	Condition(const Condition &) = delete;
	Condition &operator=(const Condition &) = delete;
	void notify();
	/* Both may return without a notification. The caller holds the mutex. */
	void wait(Mutex &held);
	/* Waits until a time of the steady clock at most; returns whether it has passed. */
	bool wait_until(Mutex &held, int64_t steady_ns);

      private:
	pthread_cond_t condition;
};
