#pragma once

#include "require.h"
#include "ring_reader.h"
#include "ring_wait.h"

#include <bpf/libbpf.h>
#include <map>
#include <memory>
#include <napi.h>
#include <vector>

struct ObjectDeleter {
	void operator()(bpf_object *object) const
	{
		bpf_object__close(object);
	}
};

struct LinkDeleter {
	void operator()(bpf_link *link) const
	{
		bpf_link__destroy(link);
	}
};

using ObjectPointer = std::unique_ptr<bpf_object, ObjectDeleter>;
using LinkPointer = std::unique_ptr<bpf_link, LinkDeleter>;

/*
 * Owns a bpf_object and all resources with the same lifetime: its links and its mapped rings. The handles that
 * JavaScript has for maps and rings (map.ts, ring.ts) are an index into this, so that none of them can outlive it.
 *
 *   kOpen --load()--> kLoaded        any --close()--> kClosed
 *     \------fails--> kFailed
 */
class NativeObject : public Napi::ObjectWrap<NativeObject>
{
      public:
	static Napi::Function define(Napi::Env env);
	explicit NativeObject(const Napi::CallbackInfo &info);
	~NativeObject() override;

      private:
	enum class State { kOpen, kLoaded, kFailed, kClosed };

	/* object.cc */
	void release() noexcept;
	Napi::Value close(const Napi::CallbackInfo &info);
	Napi::Value programs(const Napi::CallbackInfo &info);
	Napi::Value maps(const Napi::CallbackInfo &info);
	Napi::Value set_autoload(const Napi::CallbackInfo &info);
	Napi::Value set_autocreate(const Napi::CallbackInfo &info);
	Napi::Value set_max_entries(const Napi::CallbackInfo &info);
	Napi::Value load(const Napi::CallbackInfo &info);

	/* variables.cc */
	Napi::Value variables(const Napi::CallbackInfo &info);
	Napi::Value set_variable(const Napi::CallbackInfo &info);

	/* programs.cc */
	Napi::Value attach(const Napi::CallbackInfo &info);
	Napi::Value attach_all(const Napi::CallbackInfo &info);
	Napi::Value detach(const Napi::CallbackInfo &info);
	Napi::Value detach_all(const Napi::CallbackInfo &info);
	Napi::Value test_run(const Napi::CallbackInfo &info);
	Napi::Value iterate(const Napi::CallbackInfo &info);
	Napi::Value program_stats(const Napi::CallbackInfo &info);
	Napi::Value set_run_stats(const Napi::CallbackInfo &info);

	/* maps.cc */
	Napi::Value map_open(const Napi::CallbackInfo &info);
	Napi::Value map_get(const Napi::CallbackInfo &info);
	Napi::Value map_set(const Napi::CallbackInfo &info);
	Napi::Value map_set_map(const Napi::CallbackInfo &info);
	Napi::Value map_delete(const Napi::CallbackInfo &info);
	Napi::Value map_keys(const Napi::CallbackInfo &info);

	/* rings.cc */
	Napi::Value ring_open(const Napi::CallbackInfo &info);
	Napi::Value rings_create(const Napi::CallbackInfo &info);
	Napi::Value ring_drain(const Napi::CallbackInfo &info);
	Napi::Value ring_pending(const Napi::CallbackInfo &info);
	Napi::Value ring_consumed(const Napi::CallbackInfo &info);
	Napi::Value ring_take_peak(const Napi::CallbackInfo &info);
	Napi::Value ring_wait(const Napi::CallbackInfo &info);
	Napi::Value ring_end_wait(const Napi::CallbackInfo &info);
	Napi::Value ring_close(const Napi::CallbackInfo &info);

	State state_ = State::kClosed;
	ObjectPointer object_;
	std::vector<bpf_map *> maps_;
	std::map<const bpf_program *, LinkPointer> links_;
	/*
	 * Readers by map index, nullptr where no reader is open; then the readers of the rings that rings_create() has
	 * created.
	 */
	std::vector<std::unique_ptr<RingReader>> rings_;
	/* Waits by reader index. */
	std::map<uint32_t, std::unique_ptr<RingWait>> waits_;
	int run_stats_fd_ = -1;
};

#define REQUIRE_NOT_CLOSED()                                                                                           \
	if (state_ == State::kClosed) {                                                                                \
		throw_code(info.Env(), "ERR_CLOSED", "This BpfObject is closed");                                      \
		return info.Env().Undefined();                                                                         \
	}

#define REQUIRE_BEFORE_LOAD()                                                                                          \
	REQUIRE_NOT_CLOSED()                                                                                           \
	if (state_ != State::kOpen) {                                                                                  \
		throw_code(info.Env(), "ERR_ALREADY_LOADED", "load() was already called on this BpfObject");           \
		return info.Env().Undefined();                                                                         \
	}

#define REQUIRE_LOADED()                                                                                               \
	REQUIRE_NOT_CLOSED()                                                                                           \
	if (state_ != State::kLoaded) {                                                                                \
		throw_code(info.Env(), "ERR_NOT_LOADED", "This BpfObject is not loaded");                              \
		return info.Env().Undefined();                                                                         \
	}

#define REQUIRE_PROGRAM(at, name)                                                                                      \
	REQUIRE_STRING(at, name##_name);                                                                               \
	bpf_program *name = bpf_object__find_program_by_name(object_.get(), name##_name.c_str());                      \
	if (name == nullptr) {                                                                                         \
		throw_code(info.Env(), "ERR_NOT_FOUND", "No program '" + name##_name + "' in this object");            \
		return info.Env().Undefined();                                                                         \
	}

#define REQUIRE_LOADED_PROGRAM(at, name)                                                                               \
	REQUIRE_LOADED()                                                                                               \
	REQUIRE_PROGRAM(at, name)                                                                                      \
	if (bpf_program__fd(name) < 0) {                                                                               \
		throw_code(info.Env(), "ERR_NOT_LOADED", "Program '" + name##_name + "' has autoload off");            \
		return info.Env().Undefined();                                                                         \
	}

/* Finds a map by its index in `maps_`. JavaScript has the index from maps(), so a wrong one is a bug of this package.
 */
#define REQUIRE_CREATED_MAP(at, index, map)                                                                            \
	REQUIRE_LOADED()                                                                                               \
	REQUIRE_UINT32(at, index);                                                                                     \
	if (index >= maps_.size()) {                                                                                   \
		throw_range(info.Env(), "ERR_OUT_OF_RANGE", "No map with this index");                                 \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	bpf_map *map = maps_[index];                                                                                   \
	if (bpf_map__fd(map) < 0) {                                                                                    \
		throw_code(info.Env(), "ERR_NOT_LOADED",                                                               \
			   std::string("Map '") + bpf_map__name(map) + "' has autocreate off");                        \
		return info.Env().Undefined();                                                                         \
	}
