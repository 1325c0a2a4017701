#include "object.h"

#include <bpf/btf.h>
#include <cstring>

namespace
{

struct Variable {
	std::string name;
	uint8_t *data;
	size_t size;
	/* "unsigned", "signed", "boolean", or "bytes" for other types */
	const char *kind;
};

const char *kind_of(const btf *types, uint32_t type_id)
{
	const btf_type *type = btf__type_by_id(types, btf__resolve_type(types, type_id));
	if (type == nullptr)
		return "bytes";
	if (btf_is_int(type)) {
		const uint8_t encoding = btf_int_encoding(type);
		if (encoding & BTF_INT_BOOL)
			return "boolean";
		return encoding & BTF_INT_SIGNED ? "signed" : "unsigned";
	}
	if (btf_is_any_enum(type))
		return btf_kflag(type) ? "signed" : "unsigned";
	return "bytes";
}

/* A .rodata map's value type is a DATASEC that lists its variables; libbpf fills in their offsets at open. */
void collect(const btf *types, bpf_map *map, std::vector<Variable> *variables)
{
	const char *name = bpf_map__name(map);
	size_t size = 0;
	const void *initial = bpf_map__initial_value(map, &size);
	const btf_type *section = btf__type_by_id(types, bpf_map__btf_value_type_id(map));
	if (strstr(name, ".rodata") == nullptr || initial == nullptr || section == nullptr || !btf_is_datasec(section))
		return;
	/* libbpf returns the pointer as const but keeps the page writable until load(): skeletons write to it. */
	uint8_t *data = static_cast<uint8_t *>(const_cast<void *>(initial));
	const btf_var_secinfo *entry = btf_var_secinfos(section);
	for (int i = 0; i < btf_vlen(section); i++, entry++) {
		const btf_type *variable = btf__type_by_id(types, entry->type);
		if (!btf_is_var(variable) || size_t(entry->offset) + entry->size > size)
			continue;
		variables->push_back({btf__name_by_offset(types, variable->name_off), data + entry->offset, entry->size,
				      kind_of(types, variable->type)});
	}
}

std::vector<Variable> variables_of(const bpf_object *object, const std::vector<bpf_map *> &maps)
{
	std::vector<Variable> variables;
	const btf *types = bpf_object__btf(object);
	for (bpf_map *map : maps)
		if (types != nullptr && bpf_map__is_internal(map))
			collect(types, map, &variables);
	return variables;
}

} // namespace

Napi::Value NativeObject::variables(const Napi::CallbackInfo &info)
{
	REQUIRE_NOT_CLOSED();
	Napi::Array list = Napi::Array::New(info.Env());
	for (const Variable &variable : variables_of(object_.get(), maps_)) {
		Napi::Object entry = Napi::Object::New(info.Env());
		entry.Set("name", variable.name);
		entry.Set("size", Napi::Number::New(info.Env(), variable.size));
		entry.Set("kind", variable.kind);
		list.Set(list.Length(), entry);
	}
	return list;
}

/* (name: string, value: Uint8Array of exactly the variable's size) */
Napi::Value NativeObject::set_variable(const Napi::CallbackInfo &info)
{
	REQUIRE_BEFORE_LOAD();
	REQUIRE_STRING(0, name);
	REQUIRE_BYTES(1, value);
	for (const Variable &variable : variables_of(object_.get(), maps_)) {
		if (variable.name != name)
			continue;
		REQUIRE_SIZE(value, variable.size);
		memcpy(variable.data, value.data, value.size);
		return info.Env().Undefined();
	}
	throw_code(info.Env(), "ERR_NOT_FOUND", "No read-only variable '" + name + "' in this object");
	return info.Env().Undefined();
}
