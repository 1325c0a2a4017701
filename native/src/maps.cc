#include "object.h"

#include <bpf/bpf.h>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace
{

bool is_per_cpu(const bpf_map *map)
{
	switch (bpf_map__type(map)) {
	case BPF_MAP_TYPE_PERCPU_ARRAY:
	case BPF_MAP_TYPE_PERCPU_HASH:
	case BPF_MAP_TYPE_LRU_PERCPU_HASH:
	case BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE:
		return true;
	default:
		return false;
	}
}

/* The bytes that bpf(2) reads or writes for one value, which differs from value_size where each CPU has its own. */
size_t value_bytes(const bpf_map *map)
{
	const size_t value_size = bpf_map__value_size(map);
	if (!is_per_cpu(map))
		return value_size;
	const int cpus = libbpf_num_possible_cpus();
	/* No buffer has this size, so every one is refused; map_open() reports the error. */
	return cpus < 0 ? SIZE_MAX : ((value_size + 7) & ~size_t(7)) * cpus;
}

} // namespace

/* (map: index): bytes of a value */
Napi::Value NativeObject::map_open(const Napi::CallbackInfo &info)
{
	REQUIRE_CREATED_MAP(0, index, map);
	const size_t bytes = value_bytes(map);
	if (bytes == SIZE_MAX) {
		throw_bpf(info.Env(), "libbpf_num_possible_cpus", libbpf_num_possible_cpus());
		return info.Env().Undefined();
	}
	return Napi::Number::New(info.Env(), bytes);
}

/* (map: index, key: Uint8Array, value: Uint8Array): whether value was filled */
Napi::Value NativeObject::map_get(const Napi::CallbackInfo &info)
{
	REQUIRE_CREATED_MAP(0, index, map);
	REQUIRE_BYTES(1, key);
	REQUIRE_BYTES(2, value);
	REQUIRE_SIZE(key, bpf_map__key_size(map));
	REQUIRE_SIZE(value, value_bytes(map));
	if (bpf_map_lookup_elem(bpf_map__fd(map), key.data, value.data) == 0)
		return Napi::Boolean::New(info.Env(), true);
	if (errno != ENOENT)
		throw_bpf(info.Env(), "bpf_map_lookup_elem", errno);
	return Napi::Boolean::New(info.Env(), false);
}

/* (map: index, key: Uint8Array, value: Uint8Array, flags: number) */
Napi::Value NativeObject::map_set(const Napi::CallbackInfo &info)
{
	REQUIRE_CREATED_MAP(0, index, map);
	REQUIRE_BYTES(1, key);
	REQUIRE_BYTES(2, value);
	REQUIRE_UINT32(3, flags);
	REQUIRE_SIZE(key, bpf_map__key_size(map));
	REQUIRE_SIZE(value, value_bytes(map));
	if (bpf_map_update_elem(bpf_map__fd(map), key.data, value.data, flags) < 0)
		throw_bpf(info.Env(), "bpf_map_update_elem", errno);
	return info.Env().Undefined();
}

/* (map of maps: index, key: Uint8Array, map: index) */
Napi::Value NativeObject::map_set_map(const Napi::CallbackInfo &info)
{
	REQUIRE_CREATED_MAP(0, outer_index, outer);
	REQUIRE_BYTES(1, key);
	REQUIRE_CREATED_MAP(2, inner_index, inner);
	REQUIRE_SIZE(key, bpf_map__key_size(outer));
	const int type = bpf_map__type(outer);
	if (type != BPF_MAP_TYPE_ARRAY_OF_MAPS && type != BPF_MAP_TYPE_HASH_OF_MAPS) {
		throw_code(info.Env(), "ERR_WRONG_TYPE",
			   std::string("Map '") + bpf_map__name(outer) + "' is not a map of maps");
		return info.Env().Undefined();
	}
	/* The kernel returns once no program uses the replaced map: maybe_wait_bpf_programs(), kernel/bpf/syscall.c. */
	const int inner_fd = bpf_map__fd(inner);
	if (bpf_map_update_elem(bpf_map__fd(outer), key.data, &inner_fd, BPF_ANY) < 0)
		throw_bpf(info.Env(), "bpf_map_update_elem", errno);
	return info.Env().Undefined();
}

/* (map: index, key: Uint8Array): whether it was there */
Napi::Value NativeObject::map_delete(const Napi::CallbackInfo &info)
{
	REQUIRE_CREATED_MAP(0, index, map);
	REQUIRE_BYTES(1, key);
	REQUIRE_SIZE(key, bpf_map__key_size(map));
	if (bpf_map_delete_elem(bpf_map__fd(map), key.data) == 0)
		return Napi::Boolean::New(info.Env(), true);
	if (errno != ENOENT)
		throw_bpf(info.Env(), "bpf_map_delete_elem", errno);
	return Napi::Boolean::New(info.Env(), false);
}

/*
 * (map: index): all keys, concatenated. They are read at once, because bpf_map_get_next_key() starts over when the
 * given key has been deleted: a caller that deletes during an iteration would otherwise never finish. For the same
 * reason max_entries bounds the loop.
 */
Napi::Value NativeObject::map_keys(const Napi::CallbackInfo &info)
{
	REQUIRE_CREATED_MAP(0, index, map);
	const size_t key_size = bpf_map__key_size(map);
	const size_t count_max = bpf_map__max_entries(map);
	std::vector<uint8_t> keys;
	for (size_t count = 0; count < count_max; count++) {
		keys.resize((count + 1) * key_size);
		const uint8_t *previous = count == 0 ? nullptr : keys.data() + (count - 1) * key_size;
		if (bpf_map_get_next_key(bpf_map__fd(map), previous, keys.data() + count * key_size) < 0) {
			if (errno != ENOENT) {
				throw_bpf(info.Env(), "bpf_map_get_next_key", errno);
				return info.Env().Undefined();
			}
			keys.resize(count * key_size);
			break;
		}
	}
	Napi::Uint8Array result = Napi::Uint8Array::New(info.Env(), keys.size());
	if (!keys.empty())
		memcpy(result.Data(), keys.data(), keys.size());
	return result;
}
