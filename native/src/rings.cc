#include "object.h"

#include <bpf/bpf.h>
#include <cerrno>

/* (map: index): size of the ring in bytes */
Napi::Value NativeObject::ring_open(const Napi::CallbackInfo &info)
{
	REQUIRE_CREATED_MAP(0, index, map);
	if (bpf_map__type(map) != BPF_MAP_TYPE_RINGBUF) {
		throw_code(info.Env(), "ERR_WRONG_TYPE",
			   std::string("Map '") + bpf_map__name(map) + "' is not a ring buffer");
		return info.Env().Undefined();
	}
	if (rings_[index] != nullptr) {
		/* Two readers would share one consumer position, and each would lose the records that the other reads.
		 */
		throw_code(info.Env(), "ERR_RING_OPEN",
			   std::string("Ring '") + bpf_map__name(map) + "' already has a reader");
		return info.Env().Undefined();
	}
	int error = 0;
	rings_[index] = RingReader::open(bpf_map__fd(map), &error);
	if (rings_[index] == nullptr) {
		throw_bpf(info.Env(), "mmap", error);
		return info.Env().Undefined();
	}
	return Napi::Number::New(info.Env(), rings_[index]->size_bytes());
}

/*
 * (map: index, count: number, size: number): index of the first reader. Creates the rings of an array of rings; the
 * readers have consecutive indexes.
 */
Napi::Value NativeObject::rings_create(const Napi::CallbackInfo &info)
{
	REQUIRE_CREATED_MAP(0, index, map);
	REQUIRE_UINT32(1, count);
	REQUIRE_UINT32(2, size_bytes);
	const std::string name = bpf_map__name(map);
	if (bpf_map__type(map) != BPF_MAP_TYPE_ARRAY_OF_MAPS) {
		throw_code(info.Env(), "ERR_WRONG_TYPE", "Map '" + name + "' is not an array of maps");
		return info.Env().Undefined();
	}
	if (count == 0 || count > bpf_map__max_entries(map)) {
		throw_range(info.Env(), "ERR_OUT_OF_RANGE",
			    "Map '" + name + "' has room for 1 to " + std::to_string(bpf_map__max_entries(map)) +
				" rings");
		return info.Env().Undefined();
	}
	uint32_t key = 0, id;
	if (bpf_map_lookup_elem(bpf_map__fd(map), &key, &id) == 0) {
		throw_code(info.Env(), "ERR_RING_OPEN", "The rings of map '" + name + "' were already created");
		return info.Env().Undefined();
	}
	const size_t first = rings_.size();
	const char *failed = nullptr;
	int error = 0;
	for (key = 0; key < count && error == 0; key++) {
		std::unique_ptr<RingReader> ring = RingReader::create(name.c_str(), size_bytes, &error);
		if (ring == nullptr) {
			failed = "bpf_map_create";
			break;
		}
		const int map_fd = ring->map_fd();
		/* The kernel compares the ring with the array's inner map, which libbpf has freed after load(). */
		if (bpf_map_update_elem(bpf_map__fd(map), &key, &map_fd, BPF_ANY) < 0) {
			failed = "bpf_map_update_elem";
			error = errno;
		}
		rings_.push_back(std::move(ring));
	}
	if (error != 0) {
		for (uint32_t inserted = 0; inserted < count; inserted++)
			bpf_map_delete_elem(bpf_map__fd(map), &inserted);
		rings_.resize(first);
		throw_bpf(info.Env(), failed, error);
		return info.Env().Undefined();
	}
	return Napi::Number::New(info.Env(), first);
}

#define REQUIRE_RING(ring)                                                                                             \
	REQUIRE_LOADED();                                                                                              \
	REQUIRE_UINT32(0, index);                                                                                      \
	if (index >= rings_.size() || rings_[index] == nullptr) {                                                      \
		throw_code(info.Env(), "ERR_CLOSED", "This RingReader is closed");                                     \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	RingReader &ring = *rings_[index]

/* (ring: index, buffer: Uint8Array, start: number): bytes filled */
Napi::Value NativeObject::ring_drain(const Napi::CallbackInfo &info)
{
	REQUIRE_RING(ring);
	REQUIRE_BYTES(1, buffer);
	REQUIRE_UINT32(2, start);
	if (start > buffer.size) {
		throw_range(info.Env(), "ERR_OUT_OF_RANGE", "'start' is behind the end of 'buffer'");
		return info.Env().Undefined();
	}
	const RingReader::Drained drained = ring.drain(buffer.data + start, buffer.size - start);
	if (drained.corrupt) {
		throw_code(info.Env(), "ERR_RING_CORRUPT",
			   "This ring holds an impossible record: is there another reader of the same map?");
		return info.Env().Undefined();
	}
	if (drained.required > buffer.size) {
		throw_range(info.Env(), "ERR_RECORD_TOO_LARGE",
			    "The next record needs a buffer of " + std::to_string(drained.required) +
				" bytes, 'buffer' has " + std::to_string(buffer.size));
		return info.Env().Undefined();
	}
	return Napi::Number::New(info.Env(), drained.bytes);
}

Napi::Value NativeObject::ring_pending(const Napi::CallbackInfo &info)
{
	REQUIRE_RING(ring);
	return Napi::Number::New(info.Env(), ring.pending_bytes());
}

Napi::Value NativeObject::ring_consumed(const Napi::CallbackInfo &info)
{
	REQUIRE_RING(ring);
	return Napi::Number::New(info.Env(), ring.consumed_bytes());
}

Napi::Value NativeObject::ring_take_peak(const Napi::CallbackInfo &info)
{
	REQUIRE_RING(ring);
	return Napi::Number::New(info.Env(), ring.take_peak_bytes());
}

/*
 * (ring: index, callback: function): calls the callback once, with true, when the ring is readable. With false, when
 * the object is closed.
 */
Napi::Value NativeObject::ring_wait(const Napi::CallbackInfo &info)
{
	REQUIRE_RING(ring);
	if (!info[1].IsFunction()) {
		throw_type(info.Env(), "Expected 'callback' to be a function");
		return info.Env().Undefined();
	}
	int error = 0;
	std::unique_ptr<RingWait> wait =
	    RingWait::begin(info.Env(), ring.map_fd(), info[1].As<Napi::Function>(), &error);
	if (wait == nullptr)
		throw_bpf(info.Env(), "uv_poll_init", error);
	else
		waits_[index] = std::move(wait);
	return info.Env().Undefined();
}

/* (ring: index): ends the wait, if there is one, without a call of its callback. */
Napi::Value NativeObject::ring_end_wait(const Napi::CallbackInfo &info)
{
	REQUIRE_UINT32(0, index);
	waits_.erase(index);
	return info.Env().Undefined();
}

Napi::Value NativeObject::ring_close(const Napi::CallbackInfo &info)
{
	REQUIRE_UINT32(0, index);
	waits_.erase(index);
	if (index < rings_.size())
		rings_[index].reset();
	return info.Env().Undefined();
}
