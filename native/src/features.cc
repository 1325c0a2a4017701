#include "kernel.h"
#include "require.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <unistd.h>

Napi::Value possible_cpus(const Napi::CallbackInfo &info)
{
	const int count = libbpf_num_possible_cpus();
	if (count < 0) {
		throw_bpf(info.Env(), "libbpf_num_possible_cpus", count);
		return info.Env().Undefined();
	}
	return Napi::Number::New(info.Env(), count);
}

/*
 * libbpf 1.1 probes tracing with fentry, which some kernels refuse while tp_btf works. Tried here: the
 * smallest tp_btf program, on a tracepoint that every kernel with BTF has.
 */
static bool tracing_works()
{
	const int target = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);
	if (target < 0)
		return false;
	/* r0 = 0; exit */
	const bpf_insn program[] = {{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .attach_btf_id = uint32_t(target));
	const int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "probe", "GPL", program, 2, &options);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

Napi::Value features(const Napi::CallbackInfo &info)
{
	const Napi::Env env = info.Env();
	/* libbpf's probes answer "unsupported" to who may not ask. An LRU map always needs CAP_BPF: try one
	 * first. */
	const int fd = bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "probe", 4, 4, 1, nullptr);
	if (fd < 0 && errno == EPERM) {
		throw_bpf(env, "bpf_map_create", errno);
		return env.Undefined();
	}
	if (fd >= 0)
		close(fd);

	const auto map_type = [&](enum bpf_map_type type) {
		return Napi::Boolean::New(env, libbpf_probe_bpf_map_type(type, nullptr) == 1);
	};
	const auto program_type = [&](enum bpf_prog_type type) {
		return Napi::Boolean::New(env, libbpf_probe_bpf_prog_type(type, nullptr) == 1);
	};
	const auto helper = [&](enum bpf_prog_type type, enum bpf_func_id id) {
		return Napi::Boolean::New(env, libbpf_probe_bpf_helper(type, id, nullptr) == 1);
	};
	Napi::Object result = Napi::Object::New(env);
	result.Set("btf", Napi::Boolean::New(env, access("/sys/kernel/btf/vmlinux", R_OK) == 0));
	result.Set("ringbuf", map_type(BPF_MAP_TYPE_RINGBUF));
	result.Set("taskStorage", map_type(BPF_MAP_TYPE_TASK_STORAGE));
	result.Set("tracing", Napi::Boolean::New(env, tracing_works()));
	result.Set("rawTracepoint", program_type(BPF_PROG_TYPE_RAW_TRACEPOINT));
	result.Set("tracepoint", program_type(BPF_PROG_TYPE_TRACEPOINT));
	result.Set("kprobe", program_type(BPF_PROG_TYPE_KPROBE));
	result.Set("syscall", program_type(BPF_PROG_TYPE_SYSCALL));
	result.Set("bootTime", helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_ktime_get_boot_ns));
	result.Set("loop", helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_loop));
	result.Set("libbpf", libbpf_version_string());
	return result;
}
