#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/*
 * Describes the first fault in the type information (BTF) of an ELF file; empty if there is no fault or no BTF. libbpf
 * 1.1 follows its ids and offsets unchecked; libbpf checks them itself since 1.3 (btf_sanity_check()).
 */
std::string type_information_fault(const uint8_t *file, size_t size);
