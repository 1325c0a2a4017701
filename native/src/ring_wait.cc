#include "ring_wait.h"

#include <cerrno>
#include <cstdlib>
#include <uv.h>

/*
 * Belongs to the event loop until its handle is closed, which takes a turn of the loop. The cleanup hook closes the
 * handle when the environment ends first: a loop with an open handle cannot be closed.
 */
struct RingWait::State {
	uv_poll_t *poll = nullptr;
	/* nullptr once the wait is destroyed. */
	RingWait *owner = nullptr;
	napi_async_cleanup_hook_handle hook = nullptr;
	Napi::FunctionReference callback;
	bool is_closing = false;

	void close()
	{
		if (is_closing)
			return;
		is_closing = true;
		callback.Reset();
		uv_close(reinterpret_cast<uv_handle_t *>(poll), [](uv_handle_t *handle) {
			State *state = static_cast<State *>(handle->data);
			if (state->owner != nullptr)
				state->owner->state_ = nullptr;
			napi_remove_async_cleanup_hook(state->hook);
			free(handle);
			delete state;
		});
	}
};

std::unique_ptr<RingWait> RingWait::begin(Napi::Env env, int map_fd, Napi::Function callback, int *error)
{
	uv_loop_t *loop;
	napi_get_uv_event_loop(env, &loop);
	/* The size is asked of the running libuv, which may be newer than the header. */
	auto *poll = static_cast<uv_poll_t *>(calloc(1, uv_handle_size(UV_POLL)));
	*error = poll == nullptr ? ENOMEM : -uv_poll_init(loop, poll, map_fd);
	if (*error != 0) {
		free(poll);
		return nullptr;
	}
	auto *state = new State;
	state->poll = poll;
	poll->data = state;
	state->callback = Napi::Persistent(callback);
	napi_add_async_cleanup_hook(
	    env, [](napi_async_cleanup_hook_handle, void *argument) { static_cast<State *>(argument)->close(); }, state,
	    &state->hook);
	uv_poll_start(poll, UV_READABLE, [](uv_poll_t *handle, int, int) {
		State *waiting = static_cast<State *>(handle->data);
		const Napi::Env own = waiting->callback.Env();
		const Napi::HandleScope scope(own);
		const Napi::Function function = waiting->callback.Value();
		uv_poll_stop(handle);
		waiting->callback.Reset();
		function.MakeCallback(own.Global(), {Napi::Boolean::New(own, true)});
	});
	return std::unique_ptr<RingWait>(new RingWait(state));
}

RingWait::RingWait(State *state) : state_(state)
{
	state->owner = this;
}

RingWait::~RingWait()
{
	if (state_ == nullptr)
		return;
	state_->owner = nullptr;
	state_->close();
}

Napi::Function RingWait::end()
{
	if (state_ == nullptr)
		return Napi::Function();
	Napi::Function callback = state_->callback.IsEmpty() ? Napi::Function() : state_->callback.Value();
	state_->close();
	return callback;
}
