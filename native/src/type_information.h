#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/*
 * What is wrong with the type information (BTF) in an ELF file; empty: nothing, or it has none. libbpf 1.1 follows the
 * ids and offsets in there wherever they lead; it checks them itself since 1.3 (btf_sanity_check()).
 */
std::string type_information_fault(const uint8_t *file, size_t size);
