#include "type_information.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <linux/btf.h>
#include <vector>

#ifndef BTF_KIND_ENUM64
#define BTF_KIND_ENUM64 19
#endif

namespace
{

/* A part of the file, read without regard to alignment. */
struct Span {
	const uint8_t *data;
	size_t size;

	template <typename T> bool read(size_t at, T *into) const
	{
		if (at > size || size - at < sizeof(T))
			return false;
		std::memcpy(into, data + at, sizeof(T));
		return true;
	}

	bool part(size_t at, size_t length, Span *into) const
	{
		if (at > size || size - at < length)
			return false;
		*into = {data + at, length};
		return true;
	}

	/* Whether a string starts and ends within this span. */
	bool has_text(size_t at) const
	{
		return at < size && std::memchr(data + at, 0, size - at) != nullptr;
	}
};

class Types
{
      public:
	/* Returns a description of the first fault, or an empty string. */
	std::string check(Span section)
	{
		const std::string fault = split(section);
		if (!fault.empty())
			return fault;
		for (uint32_t id = 1; id <= types_.size(); id++) {
			if (!is_right(id))
				return "type " + std::to_string(id) + " of " + std::to_string(types_.size()) +
				       " refers to what is not there";
		}
		return nesting_fault();
	}

      private:
	struct Type {
		btf_type head;
		Span rest;
	};

	static uint32_t kind_of(const btf_type &head)
	{
		return BTF_INFO_KIND(head.info);
	}

	/* Bytes after a type's head; negative for an unknown kind. */
	static int64_t rest_bytes(const btf_type &head)
	{
		const int64_t count = BTF_INFO_VLEN(head.info);
		switch (kind_of(head)) {
		case BTF_KIND_INT:
		case BTF_KIND_VAR:
		case BTF_KIND_DECL_TAG:
			return sizeof(uint32_t);
		case BTF_KIND_ARRAY:
			return sizeof(btf_array);
		case BTF_KIND_STRUCT:
		case BTF_KIND_UNION:
			return count * sizeof(btf_member);
		case BTF_KIND_ENUM:
			return count * sizeof(btf_enum);
		case BTF_KIND_FUNC_PROTO:
			return count * sizeof(btf_param);
		case BTF_KIND_DATASEC:
			return count * sizeof(btf_var_secinfo);
		case BTF_KIND_ENUM64:
			return count * 3 * sizeof(uint32_t);
		case BTF_KIND_PTR:
		case BTF_KIND_FWD:
		case BTF_KIND_TYPEDEF:
		case BTF_KIND_VOLATILE:
		case BTF_KIND_CONST:
		case BTF_KIND_RESTRICT:
		case BTF_KIND_FUNC:
		case BTF_KIND_FLOAT:
		case BTF_KIND_TYPE_TAG:
			return 0;
		}
		return -1;
	}

	std::string split(Span section)
	{
		btf_header header;
		Span all, types;
		if (!section.read(0, &header) || header.magic != BTF_MAGIC || header.version != BTF_VERSION ||
		    header.hdr_len < sizeof(header) || header.hdr_len > section.size)
			return "its header is none";
		all = {section.data + header.hdr_len, section.size - header.hdr_len};
		if (!all.part(header.type_off, header.type_len, &types) ||
		    !all.part(header.str_off, header.str_len, &texts_) || texts_.size == 0 || texts_.data[0] != 0 ||
		    texts_.data[texts_.size - 1] != 0)
			return "its types or its strings are not within it";
		for (size_t at = 0; at < types.size;) {
			Type type;
			if (!types.read(at, &type.head))
				return "its last type is cut off";
			const int64_t length = rest_bytes(type.head);
			at += sizeof(type.head);
			if (length < 0 || !types.part(at, length, &type.rest))
				return "type " + std::to_string(types_.size() + 1) +
				       " is cut off, or of an unknown kind";
			at += length;
			types_.push_back(type);
		}
		return "";
	}

	bool is_type(uint32_t id) const
	{
		return id <= types_.size();
	}

	bool is_kind(uint32_t id, uint32_t kind) const
	{
		return id > 0 && is_type(id) && kind_of(types_[id - 1].head) == kind;
	}

	bool is_right(uint32_t id) const
	{
		const Type &type = types_[id - 1];
		if (!texts_.has_text(type.head.name_off))
			return false;
		switch (kind_of(type.head)) {
		case BTF_KIND_PTR:
		case BTF_KIND_TYPEDEF:
		case BTF_KIND_VOLATILE:
		case BTF_KIND_CONST:
		case BTF_KIND_RESTRICT:
		case BTF_KIND_VAR:
		case BTF_KIND_DECL_TAG:
		case BTF_KIND_TYPE_TAG:
			return is_type(type.head.type);
		case BTF_KIND_FUNC:
			return is_kind(type.head.type, BTF_KIND_FUNC_PROTO);
		case BTF_KIND_ARRAY: {
			btf_array array;
			return type.rest.read(0, &array) && is_type(array.type) && is_type(array.index_type);
		}
		case BTF_KIND_STRUCT:
		case BTF_KIND_UNION:
			return has_right_items<btf_member>(
			    type, [this](const btf_member &item) { return is_named(item.name_off, item.type); });
		case BTF_KIND_FUNC_PROTO:
			return is_type(type.head.type) &&
			       has_right_items<btf_param>(
				   type, [this](const btf_param &item) { return is_named(item.name_off, item.type); });
		case BTF_KIND_ENUM:
			return has_right_items<btf_enum>(
			    type, [this](const btf_enum &item) { return texts_.has_text(item.name_off); });
		case BTF_KIND_ENUM64:
			return has_right_items<uint32_t[3]>(
			    type, [this](const uint32_t(&item)[3]) { return texts_.has_text(item[0]); });
		case BTF_KIND_DATASEC:
			return has_right_items<btf_var_secinfo>(type, [this](const btf_var_secinfo &item) {
				return is_kind(item.type, BTF_KIND_VAR) || is_kind(item.type, BTF_KIND_FUNC);
			});
		}
		return true;
	}

	bool is_named(uint32_t name, uint32_t id) const
	{
		return texts_.has_text(name) && is_type(id);
	}

	template <typename Item, typename Check> static bool has_right_items(const Type &type, Check check)
	{
		Item item;
		for (size_t at = 0; type.rest.read(at, &item); at += sizeof(item))
			if (!check(item))
				return false;
		return true;
	}

	/* Finds the type of one of the items after a type's head. False if there are fewer items. */
	template <typename Item> static bool part_in(const Type &type, size_t index, uint32_t Item::*of, uint32_t *part)
	{
		Item item;
		if (!type.rest.read(index * sizeof(item), &item))
			return false;
		*part = item.*of;
		return true;
	}

	/* Finds the index-th type that a value contains, without those it only points to. False after the last. */
	bool part_of(uint32_t id, size_t index, uint32_t *part) const
	{
		const Type &type = types_[id - 1];
		switch (kind_of(type.head)) {
		case BTF_KIND_TYPEDEF:
		case BTF_KIND_VOLATILE:
		case BTF_KIND_CONST:
		case BTF_KIND_RESTRICT:
		case BTF_KIND_TYPE_TAG:
		case BTF_KIND_VAR:
			*part = type.head.type;
			return index == 0;
		case BTF_KIND_ARRAY:
			return part_in(type, index, &btf_array::type, part);
		case BTF_KIND_STRUCT:
		case BTF_KIND_UNION:
			return part_in(type, index, &btf_member::type, part);
		case BTF_KIND_DATASEC:
			return part_in(type, index, &btf_var_secinfo::type, part);
		}
		return false;
	}

	/*
	 * The nesting depth of a type, or a value above DEPTH_MAX. libbpf recurses into contained types without a limit
	 * (btf__align_of()): it would never terminate for a type that contains itself, and overflows the stack for very
	 * long chains.
	 */
	unsigned depth_of(uint32_t id, unsigned above)
	{
		if (id == 0)
			return 0;
		if (depths_[id - 1] != 0)
			return depths_[id - 1];
		if (above == DEPTH_MAX)
			return DEPTH_MAX + 1;
		unsigned deepest = 0;
		uint32_t part;
		for (size_t i = 0; deepest <= DEPTH_MAX && part_of(id, i, &part); i++)
			deepest = std::max(deepest, depth_of(part, above + 1));
		return depths_[id - 1] = deepest + 1;
	}

	std::string nesting_fault()
	{
		depths_.resize(types_.size());
		for (uint32_t id = 1; id <= types_.size(); id++)
			if (depth_of(id, 0) > DEPTH_MAX)
				return "type " + std::to_string(id) + " is made of itself, or of more than " +
				       std::to_string(DEPTH_MAX) + " types in a row";
		return "";
	}

	/* The kernel refuses more than 32 (MAX_RESOLVE_DEPTH in kernel/bpf/btf.c). */
	static constexpr unsigned DEPTH_MAX = 256;
	std::vector<Type> types_;
	std::vector<uint16_t> depths_; /* 0 if not computed yet */
	Span texts_ = {nullptr, 0};
};

} // namespace

std::string type_information_fault(const uint8_t *file, size_t size)
{
	const Span whole = {file, size};
	Elf64_Ehdr header;
	Elf64_Shdr section, names;
	/* libbpf itself refuses a file that is not a 64-bit little-endian ELF file. */
	if (!whole.read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    !whole.read(header.e_shoff, &section))
		return "";
	const uint64_t count = header.e_shnum != 0 ? header.e_shnum : section.sh_size;
	const uint64_t names_at = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : section.sh_link;
	Span texts;
	if (!whole.read(header.e_shoff + names_at * sizeof(section), &names) ||
	    !whole.part(names.sh_offset, names.sh_size, &texts))
		return "";
	for (uint64_t i = 1; i < count && whole.read(header.e_shoff + i * sizeof(section), &section); i++) {
		Span content;
		if (!texts.has_text(section.sh_name) ||
		    std::strcmp(reinterpret_cast<const char *>(texts.data) + section.sh_name, ".BTF") != 0 ||
		    !whole.part(section.sh_offset, section.sh_size, &content))
			continue;
		const std::string fault = Types().check(content);
		if (!fault.empty())
			return "its type information (.BTF) is malformed: " + fault;
	}
	return "";
}
