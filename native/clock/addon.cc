#include "event_frames.h"
#include "player.h"

#include <memory>
#include <napi.h>

/*
 * Plays frames at their time (player.h); daemon/replay/clock/player.ts declares the functions. JavaScript names a track
 * by a number, and a player exists until JavaScript closes it.
 */

namespace
{

constexpr napi_type_tag kPlayerTag = {0x6b7265706c617931, 0x706c617965722031};
constexpr size_t kFrameFields = sizeof(FramePlace) / sizeof(int64_t);

/*
 * A player and the JavaScript function that its thread calls, with one pending call at most. A pending call keeps this
 * object, because JavaScript may close and forget the player before the call runs.
 */
struct Owned : std::enable_shared_from_this<Owned> {
	Napi::ThreadSafeFunction wake;
	std::atomic<bool> is_waking = false;
	Napi::FunctionReference call;
	std::unique_ptr<Player> player;
};

Napi::Value wrong_arguments(const Napi::CallbackInfo &info)
{
	Napi::TypeError::New(info.Env(), "wrong arguments").ThrowAsJavaScriptException();
	return info.Env().Undefined();
}

Owned *owned_of(const Napi::CallbackInfo &info)
{
	if (!info[0].IsExternal())
		return nullptr;
	const auto external = info[0].As<Napi::External<std::shared_ptr<Owned>>>();
	if (!external.CheckTypeTag(&kPlayerTag))
		return nullptr;
	Owned *const owned = external.Data()->get();
	return owned->player ? owned : nullptr;
}

bool is_array(const Napi::Value &value, napi_typedarray_type type)
{
	return value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == type;
}

TrackId track_of(const Napi::CallbackInfo &info)
{
	return info[1].As<Napi::Number>().Uint32Value();
}

/* (function to call after frames were played, whether to make a thread) -> player; without a thread only `run`
 * plays. */
Napi::Value create_player(const Napi::CallbackInfo &info)
{
	const Napi::Env env = info.Env();
	if (!info[0].IsFunction() || !info[1].IsBoolean())
		return wrong_arguments(info);
	auto owned = std::make_unique<std::shared_ptr<Owned>>(std::make_shared<Owned>());
	Owned *const made = owned->get();
	const auto function = info[0].As<Napi::Function>();
	if (info[1].As<Napi::Boolean>()) {
		made->wake = Napi::ThreadSafeFunction::New(env, function, "clock", 0, 1);
		made->wake.Unref(env);
		made->player = std::make_unique<Player>([made] {
			if (made->is_waking.exchange(true))
				return;
			made->wake.NonBlockingCall([kept = made->shared_from_this()](Napi::Env, Napi::Function call) {
				kept->is_waking = false;
				call.Call({});
			});
		});
		made->player->start();
	} else {
		made->call = Napi::Persistent(function);
		made->player = std::make_unique<Player>([made] { made->call.Call({}); });
	}
	using Kept = std::shared_ptr<Owned>;
	const auto external = Napi::External<Kept>::New(env, owned.release(), [](Napi::Env, Kept *kept) {
		/* Stops a player that was not closed when the process ends. */
		(*kept)->player.reset();
		delete kept;
	});
	external.TypeTag(&kPlayerTag);
	return external;
}

/* (player): ends the player's thread; the player can do nothing more. */
Napi::Value close_player(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned)
		return wrong_arguments(info);
	owned->player.reset();
	if (owned->wake)
		owned->wake.Release();
	return info.Env().Undefined();
}

Napi::Value add_track(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	return owned ? Napi::Number::New(info.Env(), owned->player->add()) : wrong_arguments(info);
}

Napi::Value remove_track(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned)
		return wrong_arguments(info);
	owned->player->remove(track_of(info));
	return info.Env().Undefined();
}

/* The frames of an array: four numbers each. */
std::span<FramePlace> places_of(Napi::BigInt64Array numbers)
{
	return {reinterpret_cast<FramePlace *>(numbers.Data()), numbers.ElementLength() / kFrameFields};
}

/*
 * (player, track, bytes: Uint8Array, frames: BigInt64Array): plays the frames of `bytes`, which must stay as they are.
 * Each has four numbers: when it is due, where it starts, its size, and where its lateness is written, from its start.
 */
Napi::Value feed(const Napi::CallbackInfo &info)
{
	/* The vector is kept between calls. */
	static thread_local std::vector<Frame> frames;
	Owned *owned = owned_of(info);
	if (!owned || !is_array(info[2], napi_uint8_array) || !is_array(info[3], napi_bigint64_array))
		return wrong_arguments(info);
	auto bytes = info[2].As<Napi::Uint8Array>();
	const auto numbers = info[3].As<Napi::BigInt64Array>();
	const int64_t size = static_cast<int64_t>(bytes.ByteLength());
	frames.clear();
	for (const auto &[due_ns, start, length, lateness_at] : places_of(numbers)) {
		if (start < 0 || length < 1 || start > size || length > size - start || lateness_at < 0 ||
		    lateness_at + static_cast<int64_t>(kLatenessDigits) > length)
			return wrong_arguments(info);
		frames.push_back(
		    {due_ns, bytes.Data() + start, static_cast<uint32_t>(length), static_cast<uint32_t>(lateness_at)});
	}
	owned->player->feed(track_of(info), frames);
	return info.Env().Undefined();
}

Napi::Value take_back(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned)
		return wrong_arguments(info);
	owned->player->take_back(track_of(info));
	return info.Env().Undefined();
}

/* (player, track, to: Float64Array) -> how many frames were played since: `to` has the lateness of each. */
Napi::Value take_lateness(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned || !is_array(info[2], napi_float64_array))
		return wrong_arguments(info);
	auto to = info[2].As<Napi::Float64Array>();
	const size_t count = owned->player->take_lateness(track_of(info), {to.Data(), to.ElementLength()});
	return Napi::Number::New(info.Env(), static_cast<double>(count));
}

Napi::Value set_wakes(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned || !info[2].IsBoolean())
		return wrong_arguments(info);
	owned->player->set_wakes(track_of(info), info[2].As<Napi::Boolean>());
	return info.Env().Undefined();
}

/* (player, to: Uint32Array) -> how many tracks woke JavaScript: `to` has them. */
Napi::Value take_woken(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned || !is_array(info[1], napi_uint32_array))
		return wrong_arguments(info);
	auto to = info[1].As<Napi::Uint32Array>();
	const size_t count = owned->player->take_woken({to.Data(), to.ElementLength()});
	return Napi::Number::New(info.Env(), static_cast<double>(count));
}

/* (player, track, descriptor, is chunked) -> viewer; undefined if there is no more descriptor */
Napi::Value attach(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned || !info[2].IsNumber() || !info[3].IsBoolean())
		return wrong_arguments(info);
	const auto viewer =
	    owned->player->attach(track_of(info), info[2].As<Napi::Number>().Int32Value(), info[3].As<Napi::Boolean>());
	return viewer ? Napi::Number::New(info.Env(), *viewer) : info.Env().Undefined();
}

/* (player, track, to: Uint32Array, bytes: Float64Array) -> how many viewers have room: their names and bytes sent */
Napi::Value sent_bytes(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned || !is_array(info[2], napi_uint32_array) || !is_array(info[3], napi_float64_array))
		return wrong_arguments(info);
	auto to = info[2].As<Napi::Uint32Array>();
	auto bytes = info[3].As<Napi::Float64Array>();
	const size_t count = owned->player->sent_bytes(track_of(info), {to.Data(), to.ElementLength()},
						       {bytes.Data(), bytes.ElementLength()});
	return Napi::Number::New(info.Env(), static_cast<double>(count));
}

/* (player, track, viewer) -> { through: frames that it got, sent: bytes, rest: Buffer of what it has yet to get } */
Napi::Value detach(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	if (!owned || !info[2].IsNumber())
		return wrong_arguments(info);
	const auto viewer = owned->player->detach(track_of(info), info[2].As<Napi::Number>().Uint32Value());
	if (!viewer)
		return info.Env().Undefined();
	const auto result = Napi::Object::New(info.Env());
	result.Set("through", Napi::Number::New(info.Env(), static_cast<double>(viewer->through)));
	result.Set("sent", Napi::Number::New(info.Env(), static_cast<double>(viewer->sent_bytes)));
	result.Set("rest", Napi::Buffer<char>::Copy(info.Env(), viewer->rest.data(), viewer->rest.size()));
	return result;
}

/* (player, now: bigint) -> when the next frame is due, or undefined; plays those that are due by then. */
Napi::Value run(const Napi::CallbackInfo &info)
{
	Owned *owned = owned_of(info);
	bool is_lossless = false;
	if (!owned || !info[1].IsBigInt())
		return wrong_arguments(info);
	const auto next = owned->player->run(info[1].As<Napi::BigInt>().Int64Value(&is_lossless));
	return next ? Napi::BigInt::New(info.Env(), *next) : info.Env().Undefined();
}

/* Events `from` to `to` of the columns of a page; std::nullopt if the page does not have all of them. */
std::optional<EventRun> run_of(const Napi::Object &page, size_t from, size_t to)
{
	const Napi::Value json = page.Get("bytes"), ends = page.Get("ends"), start = page.Get("startNs"),
			  duration = page.Get("durationNs"), own = page.Get("isOwn"), first = page.Get("first");
	if (!is_array(json, napi_uint8_array) || !is_array(ends, napi_uint32_array) ||
	    !is_array(start, napi_float64_array) || !is_array(duration, napi_float64_array) ||
	    !is_array(own, napi_uint8_array) || !first.IsNumber())
		return std::nullopt;
	auto bytes = json.As<Napi::Uint8Array>();
	auto json_ends = ends.As<Napi::Uint32Array>();
	auto start_ns = start.As<Napi::Float64Array>();
	auto duration_ns = duration.As<Napi::Float64Array>();
	auto is_own = own.As<Napi::Uint8Array>();
	if (from > to || std::min({json_ends.ElementLength(), start_ns.ElementLength(), duration_ns.ElementLength(),
				   is_own.ElementLength()}) < to)
		return std::nullopt;
	const uint32_t json_start = from == 0 ? 0 : json_ends[from - 1];
	uint32_t before = json_start;
	for (size_t i = from; i < to; i++) {
		if (json_ends[i] <= before || json_ends[i] > bytes.ByteLength())
			return std::nullopt;
		before = json_ends[i];
	}
	return EventRun{bytes.Data(),
			json_start,
			{json_ends.Data() + from, to - from},
			start_ns.Data() + from,
			duration_ns.Data() + from,
			is_own.Data() + from,
			static_cast<uint64_t>(first.As<Napi::Number>().Int64Value()) + from,
			std::nullopt};
}

/*
 * (page, index of an event in it, frames: BigInt64Array, timeout or null, first id or null, to: Uint8Array, offset in
 * it) -> how many events fit; sets their places in the frames, which have the time when each is due.
 */
Napi::Value write_events(const Napi::CallbackInfo &info)
{
	if (!info[0].IsObject() || !info[1].IsNumber() || !is_array(info[2], napi_bigint64_array) ||
	    !is_array(info[5], napi_uint8_array) || !info[6].IsNumber())
		return wrong_arguments(info);
	const auto places = places_of(info[2].As<Napi::BigInt64Array>());
	const int64_t from = info[1].As<Napi::Number>().Int64Value(), at = info[6].As<Napi::Number>().Int64Value();
	auto to = info[5].As<Napi::Uint8Array>();
	if (from < 0 || at < 0 || static_cast<size_t>(at) > to.ByteLength())
		return wrong_arguments(info);
	auto run = run_of(info[0].As<Napi::Object>(), from, from + places.size());
	if (!run)
		return wrong_arguments(info);
	if (info[3].IsNumber())
		run->timeout_ns = info[3].As<Napi::Number>().DoubleValue();
	std::optional<uint64_t> first_id;
	if (info[4].IsNumber())
		first_id = static_cast<uint64_t>(info[4].As<Napi::Number>().Int64Value());
	const size_t room = to.ByteLength() - at;
	const size_t count = ::write_events(*run, first_id, places, {to.Data() + at, room});
	for (size_t i = 0; i < count; i++)
		places[i].start += at;
	return Napi::Number::New(info.Env(), static_cast<double>(count));
}

/* (frame: Uint8Array) -> nanoseconds to send it to a socket and to receive it, undefined if there is none */
Napi::Value measure_sending(const Napi::CallbackInfo &info)
{
	if (!is_array(info[0], napi_uint8_array))
		return wrong_arguments(info);
	auto frame = info[0].As<Napi::Uint8Array>();
	const auto taken_ns = send_time_ns({frame.Data(), frame.ByteLength()});
	return taken_ns ? Napi::Number::New(info.Env(), static_cast<double>(*taken_ns)) : info.Env().Undefined();
}

Napi::Object start(Napi::Env env, Napi::Object exports)
{
	exports.Set("createPlayer", Napi::Function::New<create_player>(env));
	exports.Set("closePlayer", Napi::Function::New<close_player>(env));
	exports.Set("addTrack", Napi::Function::New<add_track>(env));
	exports.Set("removeTrack", Napi::Function::New<remove_track>(env));
	exports.Set("feed", Napi::Function::New<feed>(env));
	exports.Set("takeBack", Napi::Function::New<take_back>(env));
	exports.Set("takeLateness", Napi::Function::New<take_lateness>(env));
	exports.Set("setWakes", Napi::Function::New<set_wakes>(env));
	exports.Set("takeWoken", Napi::Function::New<take_woken>(env));
	exports.Set("attach", Napi::Function::New<attach>(env));
	exports.Set("sentBytes", Napi::Function::New<sent_bytes>(env));
	exports.Set("detach", Napi::Function::New<detach>(env));
	exports.Set("measureSending", Napi::Function::New<measure_sending>(env));
	exports.Set("writeEvents", Napi::Function::New<write_events>(env));
	exports.Set("run", Napi::Function::New<run>(env));
	return exports;
}

} // namespace

NODE_API_MODULE(clock, start)
