/*
 * libFuzzer's target for our parser of type information: it must read nothing outside its input, it must terminate, and
 * libbpf must be able to follow whatever it accepts.
 *
 * An input is an object file, or else the contents of a .BTF section: most changes to a whole file make it invalid
 * before any types are parsed.
 */
#include "../../../native/src/type_information.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <vector>

namespace
{

const char SECTION_NAMES[] = "\0.BTF\0.shstrtab";

/* Layout: ELF header, contents of both sections, section headers. */
std::vector<uint8_t> object_of(const uint8_t *types, size_t size)
{
	const size_t names_at = sizeof(Elf64_Ehdr) + size;
	const size_t headers_at = names_at + sizeof(SECTION_NAMES);
	Elf64_Ehdr header = {};
	Elf64_Shdr sections[3] = {};
	std::memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_shoff = headers_at;
	header.e_shnum = 3;
	header.e_shstrndx = 2;
	sections[1].sh_name = 1;
	sections[1].sh_offset = sizeof(header);
	sections[1].sh_size = size;
	sections[2].sh_name = 6;
	sections[2].sh_offset = names_at;
	sections[2].sh_size = sizeof(SECTION_NAMES);
	std::vector<uint8_t> file(headers_at + sizeof(sections));
	std::memcpy(file.data(), &header, sizeof(header));
	std::memcpy(file.data() + sizeof(header), types, size);
	std::memcpy(file.data() + names_at, SECTION_NAMES, sizeof(SECTION_NAMES));
	std::memcpy(file.data() + headers_at, sections, sizeof(sections));
	return file;
}

/* Follows each type as libbpf does with those of an object. */
void follow(const uint8_t *types, size_t size)
{
	btf *parsed = btf__new(types, size);
	if (libbpf_get_error(parsed))
		return;
	for (uint32_t id = 1; id < btf__type_cnt(parsed); id++) {
		const btf_type *type = btf__type_by_id(parsed, id);
		if (!btf__name_by_offset(parsed, type->name_off))
			abort();
		btf__resolve_size(parsed, id);
		btf__resolve_type(parsed, id);
		btf__align_of(parsed, id);
	}
	btf__free(parsed);
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***)
{
	libbpf_set_print(nullptr);
	return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= SELFMAG && std::memcmp(data, ELFMAG, SELFMAG) == 0) {
		type_information_fault(data, size);
		return 0;
	}
	const std::vector<uint8_t> file = object_of(data, size);
	if (type_information_fault(file.data(), file.size()).empty())
		follow(data, size);
	return 0;
}
