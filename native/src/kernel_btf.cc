#include "kernel.h"
#include "kernel_types.h"
#include "require.h"

#include <algorithm>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

namespace
{

struct BtfDeleter {
	void operator()(btf *types) const
	{
		btf__free(types);
	}
};

/* Kept for each thread, because each thread of Node has its own instance of the addon. */
thread_local std::unique_ptr<btf, BtfDeleter> kept_types;

} // namespace

btf *kernel_types()
{
	if (kept_types == nullptr)
		kept_types.reset(btf__load_vmlinux_btf());
	return kept_types.get();
}

void drop_kernel_types(const Napi::CallbackInfo &)
{
	kept_types.reset();
}

const btf_type *resolve(const btf *types, uint32_t type_id)
{
	const int resolved = btf__resolve_type(types, type_id);
	return resolved < 0 ? nullptr : btf__type_by_id(types, resolved);
}

int member_offset(const btf *types, const btf_type *composite, const std::string &name)
{
	if (composite == nullptr || !btf_is_composite(composite))
		return -1;
	for (int i = 0; i < btf_vlen(composite); i++) {
		const btf_member &member = btf_members(composite)[i];
		const std::string member_name = btf__name_by_offset(types, member.name_off);
		const int offset = int(btf_member_bit_offset(composite, i) / 8);
		if (member_name == name)
			return offset;
		const int inner = member_name.empty() ? member_offset(types, resolve(types, member.type), name) : -1;
		if (inner >= 0)
			return offset + inner;
	}
	return -1;
}

namespace
{

/* The type of a member; searches anonymous structs and unions as C does. */
const btf_type *member_type(const btf *types, const btf_type *composite, const std::string &name)
{
	const btf_member *member = btf_members(composite);
	for (int i = 0; i < btf_vlen(composite); i++, member++) {
		const char *member_name = btf__name_by_offset(types, member->name_off);
		const btf_type *type = resolve(types, member->type);
		if (member_name != nullptr && name == member_name)
			return type;
		if (type != nullptr && btf_is_composite(type) && (member_name == nullptr || *member_name == '\0')) {
			const btf_type *inner = member_type(types, type, name);
			if (inner != nullptr)
				return inner;
		}
	}
	return nullptr;
}

bool field_exists(const btf *types, const btf_type *type, const std::string &path)
{
	for (size_t start = 0; start <= path.size();) {
		if (type == nullptr || !btf_is_composite(type))
			return false;
		const size_t end = std::min(path.find('.', start), path.size());
		type = member_type(types, type, path.substr(start, end - start));
		start = end + 1;
	}
	return type != nullptr;
}

} // namespace

/* (type: string, path: string): whether the field exists; with an empty path, whether the type exists */
Napi::Value btf_field_exists(const Napi::CallbackInfo &info)
{
	REQUIRE_STRING(0, type);
	REQUIRE_STRING(1, path);
	REQUIRE_KERNEL_BTF(types);
	constexpr uint32_t kKinds[] = {BTF_KIND_STRUCT, BTF_KIND_UNION, BTF_KIND_TYPEDEF, BTF_KIND_ENUM,
				       BTF_KIND_ENUM64, BTF_KIND_INT,   BTF_KIND_FUNC};
	for (const uint32_t kind : kKinds) {
		const int id = btf__find_by_name_kind(types, type.c_str(), kind);
		if (id > 0 && (path.empty() || field_exists(types, resolve(types, id), path)))
			return Napi::Boolean::New(info.Env(), true);
	}
	return Napi::Boolean::New(info.Env(), false);
}

namespace
{

/* Finds the value of an enumerator in any enum, named or not; false when there is none of this name. */
bool enumerator_value(const btf *types, const std::string &name, int64_t *value)
{
	for (uint32_t id = 1; id < btf__type_cnt(types); id++) {
		const btf_type *type = btf__type_by_id(types, id);
		if (!btf_is_enum(type))
			continue;
		for (int i = 0; i < btf_vlen(type); i++) {
			const struct btf_enum &enumerator = btf_enum(type)[i];
			if (name != btf__name_by_offset(types, enumerator.name_off))
				continue;
			*value = btf_kflag(type) ? int64_t(enumerator.val) : int64_t(uint32_t(enumerator.val));
			return true;
		}
	}
	return false;
}

} // namespace

/* (name: string): its value; undefined if it does not exist */
Napi::Value btf_enumerator(const Napi::CallbackInfo &info)
{
	REQUIRE_STRING(0, name);
	REQUIRE_KERNEL_BTF(types);
	int64_t value = 0;
	if (!enumerator_value(types, name, &value))
		return info.Env().Undefined();
	return Napi::Number::New(info.Env(), double(value));
}

namespace
{

/* Returns -1 if neither a function nor a typedef of one has this name. */
int argument_count(const btf *types, const char *name)
{
	int id = btf__find_by_name_kind(types, name, BTF_KIND_TYPEDEF);
	if (id <= 0)
		id = btf__find_by_name_kind(types, name, BTF_KIND_FUNC);
	if (id <= 0)
		return -1;
	const btf_type *type = resolve(types, id);
	if (type != nullptr && (btf_is_ptr(type) || btf_is_func(type)))
		type = resolve(types, type->type);
	return type != nullptr && btf_is_func_proto(type) ? btf_vlen(type) : -1;
}

} // namespace

/* (names: string[], module: string, or empty): number of parameters of each; -1 if it does not exist */
Napi::Value btf_argument_counts(const Napi::CallbackInfo &info)
{
	REQUIRE_STRINGS(0, names);
	REQUIRE_STRING(1, module);
	REQUIRE_KERNEL_BTF(types);
	std::unique_ptr<btf, BtfDeleter> of_module;
	if (!module.empty()) {
		of_module.reset(btf__parse_split(("/sys/kernel/btf/" + module).c_str(), types));
		if (of_module == nullptr) {
			throw_bpf(info.Env(), "btf__parse_split", errno);
			return info.Env().Undefined();
		}
	}
	Napi::Array counts = Napi::Array::New(info.Env(), names.Length());
	for (uint32_t i = 0; i < names.Length(); i++) {
		const std::string name = names.Get(i).As<Napi::String>().Utf8Value();
		const int count = argument_count(of_module ? of_module.get() : types, name.c_str());
		counts.Set(i, Napi::Number::New(info.Env(), count));
	}
	return counts;
}
