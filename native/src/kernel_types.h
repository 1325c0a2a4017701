#pragma once

#include <bpf/btf.h>
#include <memory>
#include <string>

/* Access to the kernel's type information (BTF), implemented in kernel_btf.cc. */

struct BtfDeleter {
	void operator()(btf *types) const
	{
		btf__free(types);
	}
};

/* The type without modifiers and typedefs. */
const btf_type *resolve(const btf *types, uint32_t type_id);

/* Offset of a member in bytes; searches anonymous structs and unions as C does. -1: there is no such member. */
int member_offset(const btf *types, const btf_type *composite, const std::string &name);

/* BTF takes some megabytes and is needed a few times at start: it is read each time rather than kept. */
#define REQUIRE_KERNEL_BTF(types)                                                                                      \
	const std::unique_ptr<btf, BtfDeleter> types##_owner(btf__load_vmlinux_btf());                                 \
	const btf *types = types##_owner.get();                                                                        \
	if (types == nullptr) {                                                                                        \
		throw_bpf(info.Env(), "btf__load_vmlinux_btf", errno);                                                 \
		return info.Env().Undefined();                                                                         \
	}
