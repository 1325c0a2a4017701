#include "kernel.h"
#include "kernel_types.h"
#include "require.h"

#include <array>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstddef>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The kernel keeps a program on its CPU by disabling preemption around a tracepoint, or (since 7.0) by disabling only
 * migration, which task_struct shows. The preemption count cannot be read where the kernel keeps no names of its
 * variables (CONFIG_KALLSYMS_ALL).
 */
namespace
{

struct File {
	const int fd;
	explicit File(int fd) : fd(fd)
	{
	}
	File(const File &) = delete;
	File &operator=(const File &) = delete;
	~File()
	{
		if (fd >= 0)
			close(fd);
	}
};

/* The program's result in its map. */
struct Seen {
	uint32_t ran;
	uint32_t migration_disabled;
};

/* Loads a program for one tracepoint that acts only on this thread. Returns an fd, or a negative errno value. */
int load(const char *tracepoint, int field_offset, int map)
{
	const int target = libbpf_find_vmlinux_btf_id(tracepoint, BPF_TRACE_RAW_TP);
	if (target < 0)
		return target;
	const auto call = [](int32_t helper) { return bpf_insn{BPF_JMP | BPF_CALL, 0, 0, 0, helper}; };
	const std::array program = {
	    call(BPF_FUNC_get_current_pid_tgid),
	    /* Another thread jumps to the end. */
	    bpf_insn{BPF_JMP32 | BPF_JNE | BPF_K, 0, 0, 6, int32_t(gettid())},
	    call(BPF_FUNC_get_current_task_btf),
	    bpf_insn{BPF_LDX | BPF_MEM | BPF_H, 2, 0, int16_t(field_offset), 0},
	    bpf_insn{BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_VALUE, 0, map},
	    bpf_insn{},
	    bpf_insn{BPF_ST | BPF_MEM | BPF_W, 1, 0, offsetof(Seen, ran), 1},
	    bpf_insn{BPF_STX | BPF_MEM | BPF_W, 1, 2, offsetof(Seen, migration_disabled), 0},
	    bpf_insn{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
	    bpf_insn{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .attach_btf_id = uint32_t(target));
	const int fd =
	    bpf_prog_load(BPF_PROG_TYPE_TRACING, "preemption", "GPL", program.data(), program.size(), &options);
	return fd < 0 ? -errno : fd;
}

void rename_this_thread()
{
	char name[16] = {};
	prctl(PR_GET_NAME, name);
	prctl(PR_SET_NAME, name);
}

void call_the_kernel()
{
	syscall(SYS_getppid);
}

/* Runs the program in a tracepoint that `reach` triggers. Returns 0, or a negative errno value. */
int look(const char *tracepoint, void (*reach)(), int field_offset, Seen *seen)
{
	const File map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "preemption", 4, sizeof(Seen), 1, nullptr));
	if (map.fd < 0)
		return -errno;
	const File program(load(tracepoint, field_offset, map.fd));
	if (program.fd < 0)
		return program.fd;
	{
		const File link(bpf_raw_tracepoint_open(nullptr, program.fd));
		if (link.fd < 0)
			return -errno;
		reach();
	}
	const uint32_t key = 0;
	return bpf_map_lookup_elem(map.fd, &key, seen) != 0 ? -errno : 0;
}

} // namespace

/* (): whether another task may run on the CPU while a tp_btf program does; undefined if this cannot be determined */
Napi::Value tracepoints_are_preempted(const Napi::CallbackInfo &info)
{
	REQUIRE_KERNEL_BTF(types);
	const int task = btf__find_by_name_kind(types, "task_struct", BTF_KIND_STRUCT);
	const int offset = task < 0 ? -1 : member_offset(types, btf__type_by_id(types, task), "migration_disabled");
	/* A kernel without that field can only disable preemption. */
	if (offset < 0)
		return Napi::Boolean::New(info.Env(), false);
	const struct {
		const char *name;
		void (*reach)();
	} tracepoints[] = {{"task_rename", rename_this_thread}, {"sys_enter", call_the_kernel}};
	bool preempted = false;
	for (const auto &[name, reach] : tracepoints) {
		Seen seen = {};
		if (const int result = look(name, reach, offset, &seen); result < 0) {
			throw_bpf(info.Env(), "bpf_prog_load", -result);
			return info.Env().Undefined();
		}
		if (!seen.ran)
			return info.Env().Undefined();
		preempted = preempted || seen.migration_disabled != 0;
	}
	return Napi::Boolean::New(info.Env(), preempted);
}
