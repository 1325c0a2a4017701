#pragma once

#include <memory>
#include <napi.h>

/*
 * Waits once until a ring buffer is readable, on the event loop of Node. The ring is readable if it has records when
 * the wait begins, or if a program wakes its readers.
 */
class RingWait
{
      public:
	/* Begins to wait. Returns nullptr and sets *error to an errno value on failure. */
	static std::unique_ptr<RingWait> begin(Napi::Env env, int map_fd, Napi::Function callback, int *error);
	/* Ends the wait without a call of the callback. */
	~RingWait();
	RingWait(const RingWait &) = delete;
	RingWait &operator=(const RingWait &) = delete;

	/* Ends the wait, and returns the callback; an empty function if the callback was already called. */
	Napi::Function end();

      private:
	struct State;
	explicit RingWait(State *state);

	/* nullptr once the event loop has closed the handle. */
	State *state_;
};
