#pragma once

#include <bpf/btf.h>
#include <memory>
#include <string>

/* kernel_btf.cc: the kernel's type information. */

struct BtfDeleter {
	void operator()(btf *types) const
	{
		btf__free(types);
	}
};

/* Without modifiers and typedefs. */
const btf_type *resolve(const btf *types, uint32_t type_id);

/* In bytes, looking into anonymous structs and unions as C does; -1: no such member. */
int member_offset(const btf *types, const btf_type *composite, const std::string &name);

/* Some megabytes that are wanted a few times at start: read each time rather than kept. */
#define REQUIRE_KERNEL_BTF(types)                                                                                      \
	const std::unique_ptr<btf, BtfDeleter> types##_owner(btf__load_vmlinux_btf());                                 \
	const btf *types = types##_owner.get();                                                                        \
	if (types == nullptr) {                                                                                        \
		throw_bpf(info.Env(), "btf__load_vmlinux_btf", errno);                                                 \
		return info.Env().Undefined();                                                                         \
	}
