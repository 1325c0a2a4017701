#pragma once

#include <bpf/btf.h>
#include <string>

/* Access to the kernel's type information (BTF), implemented in kernel_btf.cc. */

/* The type without modifiers and typedefs. */
const btf_type *resolve(const btf *types, uint32_t type_id);

/* Offset of a member in bytes; searches anonymous structs and unions as C does. -1: there is no such member. */
int member_offset(const btf *types, const btf_type *composite, const std::string &name);

/*
 * The kernel's types, read when they are first needed; null with errno if the kernel has none. BTF takes some megabytes
 * and is needed a few times in a row at start: it stays until drop_kernel_types().
 */
btf *kernel_types();

#define REQUIRE_KERNEL_BTF(types)                                                                                      \
	btf *const types = kernel_types();                                                                             \
	if (types == nullptr) {                                                                                        \
		throw_bpf(info.Env(), "btf__load_vmlinux_btf", errno);                                                 \
		return info.Env().Undefined();                                                                         \
	}
