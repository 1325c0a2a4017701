#include "object.h"

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

#define REQUIRE_RING(ring)                                                                                             \
	REQUIRE_LOADED();                                                                                              \
	REQUIRE_UINT32(0, index);                                                                                      \
	if (index >= rings_.size() || rings_[index] == nullptr) {                                                      \
		throw_code(info.Env(), "ERR_CLOSED", "This RingReader is closed");                                     \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	RingReader &ring = *rings_[index]

/* (map: index, buffer: Uint8Array): bytes filled */
Napi::Value NativeObject::ring_drain(const Napi::CallbackInfo &info)
{
	REQUIRE_RING(ring);
	REQUIRE_BYTES(1, buffer);
	const RingReader::Drained drained = ring.drain(buffer.data, buffer.size);
	if (drained.corrupt) {
		throw_code(info.Env(), "ERR_RING_CORRUPT",
			   "This ring holds an impossible record: is there another reader of the same map?");
		return info.Env().Undefined();
	}
	if (drained.required != 0) {
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

Napi::Value NativeObject::ring_take_peak(const Napi::CallbackInfo &info)
{
	REQUIRE_RING(ring);
	return Napi::Number::New(info.Env(), ring.take_peak_bytes());
}

Napi::Value NativeObject::ring_close(const Napi::CallbackInfo &info)
{
	REQUIRE_UINT32(0, index);
	if (index < rings_.size())
		rings_[index].reset();
	return info.Env().Undefined();
}
