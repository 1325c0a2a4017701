#include "kernel.h"
#include "require.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <iterator>
#include <string>
#include <unistd.h>

/* module_types.c */
extern "C" int __real_bpf_btf_get_next_id(uint32_t start_id, uint32_t *next_id);

Napi::Value possible_cpus(const Napi::CallbackInfo &info)
{
	const int count = libbpf_num_possible_cpus();
	if (count < 0) {
		throw_bpf(info.Env(), "libbpf_num_possible_cpus", count);
		return info.Env().Undefined();
	}
	return Napi::Number::New(info.Env(), count);
}

namespace
{

constexpr bpf_insn kReturnZero = {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0};
constexpr bpf_insn kExit = {BPF_JMP | BPF_EXIT, 0, 0, 0, 0};
constexpr bpf_insn kFetchAndAdd[] = {
    {BPF_ST | BPF_MEM | BPF_DW, BPF_REG_10, 0, -8, 0},
    {BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 1},
    {BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_10, 1, -8, BPF_ADD | BPF_FETCH},
    kReturnZero,
    kExit,
};

/*
 * libbpf 1.1 probes tracing with fentry, which some kernels refuse while tp_btf works, and cannot probe its helpers.
 * This loads a tp_btf program for a tracepoint that every kernel with BTF has.
 */
bool tracing_loads(const bpf_insn *program, size_t count, std::string *log = nullptr)
{
	const int target = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);
	if (target < 0)
		return false;
	char text[4096] = "";
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .attach_btf_id = uint32_t(target));
	if (log != nullptr) {
		options.log_buf = text;
		options.log_size = sizeof(text);
		options.log_level = 1;
	}
	const int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "probe", "GPL", program, count, &options);
	if (fd >= 0)
		close(fd);
	if (log != nullptr)
		*log = text;
	return fd >= 0;
}

/*
 * The call has no arguments, so the verifier refuses it in any case: only its message shows whether the helper exists.
 */
bool tracing_has_helper(enum bpf_func_id id)
{
	const bpf_insn program[] = {{BPF_JMP | BPF_CALL, 0, 0, 0, id}, kReturnZero, kExit};
	std::string log;
	if (tracing_loads(program, 3, &log))
		return true;
	const bool known =
	    log.find("invalid func ") == std::string::npos && log.find("unknown func ") == std::string::npos;
	return known && !log.empty();
}

/* Searching for module types requires CAP_SYS_ADMIN. */
bool modules_have_types()
{
	uint32_t id = 0;
	return __real_bpf_btf_get_next_id(0, &id) == 0 || errno != EPERM;
}

} // namespace

Napi::Value features(const Napi::CallbackInfo &info)
{
	const Napi::Env env = info.Env();
	/* libbpf's probes report "unsupported" to an unprivileged caller. An LRU map always needs CAP_BPF: try one
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
	const auto boolean = [&](bool value) { return Napi::Boolean::New(env, value); };
	Napi::Object result = Napi::Object::New(env);
	result.Set("btf", Napi::Boolean::New(env, access("/sys/kernel/btf/vmlinux", R_OK) == 0));
	result.Set("ringbuf", map_type(BPF_MAP_TYPE_RINGBUF));
	result.Set("taskStorage", map_type(BPF_MAP_TYPE_TASK_STORAGE));
	const bpf_insn nothing[] = {kReturnZero, kExit};
	result.Set("tracing", boolean(tracing_loads(nothing, 2)));
	result.Set("rawTracepoint", program_type(BPF_PROG_TYPE_RAW_TRACEPOINT));
	result.Set("tracepoint", program_type(BPF_PROG_TYPE_TRACEPOINT));
	result.Set("kprobe", program_type(BPF_PROG_TYPE_KPROBE));
	result.Set("syscall", program_type(BPF_PROG_TYPE_SYSCALL));
	result.Set("bootTime", helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_ktime_get_boot_ns));
	result.Set("loop", helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_loop));
	result.Set("tracingTaskStorage", boolean(tracing_has_helper(BPF_FUNC_task_storage_get)));
	result.Set("tracingCurrentTask", boolean(tracing_has_helper(BPF_FUNC_get_current_task_btf)));
	result.Set("fetchAndAdd", boolean(tracing_loads(kFetchAndAdd, std::size(kFetchAndAdd))));
	/* The same test as in libbpf: bpf_ktime_get_coarse_ns() appeared in the same kernel version. */
	result.Set("memcgAccounting", helper(BPF_PROG_TYPE_SOCKET_FILTER, BPF_FUNC_ktime_get_coarse_ns));
	result.Set("moduleTypes", boolean(modules_have_types()));
	result.Set("libbpf", libbpf_version_string());
	return result;
}
