#include "object.h"
#include "libbpf_log.h"

#include <bpf/bpf.h>
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace
{

/* Larger than the output of any sane iterator; it keeps a runaway iterator from exhausting the process's memory. */
constexpr size_t kIterateBytesMax = 256u << 20;
constexpr size_t kIterateReadBytes = 64 * 1024;

/* Reads until the end. Returns 0 or an errno value. */
int read_to_end(int fd, std::vector<uint8_t> *into)
{
	for (;;) {
		const size_t filled = into->size();
		if (filled >= kIterateBytesMax)
			return EFBIG;
		into->resize(filled + kIterateReadBytes);
		const ssize_t count = read(fd, into->data() + filled, kIterateReadBytes);
		into->resize(filled + (count > 0 ? count : 0));
		if (count == 0)
			return 0;
		/* EAGAIN: bpf_seq_read() yields the CPU after a million objects, and must be called again. */
		if (count < 0 && errno != EINTR && errno != EAGAIN)
			return errno;
	}
}

} // namespace

/* (program: string): whether it was not attached before */
Napi::Value NativeObject::attach(const Napi::CallbackInfo &info)
{
	REQUIRE_LOADED_PROGRAM(0, program);
	if (links_.count(program) != 0)
		return Napi::Boolean::New(info.Env(), false);
	LibbpfLog log;
	LinkPointer link(bpf_program__attach(program));
	if (link == nullptr) {
		throw_bpf(info.Env(), "bpf_program__attach", errno, &log, program_name);
		return info.Env().Undefined();
	}
	links_[program] = std::move(link);
	return Napi::Boolean::New(info.Env(), true);
}

/* (): names of the programs it attached. If one fails, those that this call attached are detached again. */
Napi::Value NativeObject::attach_all(const Napi::CallbackInfo &info)
{
	REQUIRE_LOADED();
	std::map<const bpf_program *, LinkPointer> added;
	Napi::Array names = Napi::Array::New(info.Env());
	bpf_program *program;
	bpf_object__for_each_program(program, object_.get())
	{
		/* An iterator runs when it is read, which iterate() does. */
		const bool is_iterator = bpf_program__expected_attach_type(program) == BPF_TRACE_ITER;
		if (bpf_program__fd(program) < 0 || !bpf_program__autoattach(program) || is_iterator ||
		    links_.count(program) != 0)
			continue;
		LibbpfLog log;
		LinkPointer link(bpf_program__attach(program));
		/* libbpf returns this if the section name does not specify a target. For a refusal by the kernel, which
		 * may have the same number, it also prints a message. */
		if (link == nullptr && errno == EOPNOTSUPP && log.messages().empty())
			continue;
		if (link == nullptr) {
			throw_bpf(info.Env(), "bpf_program__attach", errno, &log, bpf_program__name(program));
			return info.Env().Undefined();
		}
		added[program] = std::move(link);
		names.Set(names.Length(), Napi::String::New(info.Env(), bpf_program__name(program)));
	}
	links_.merge(added);
	return names;
}

Napi::Value NativeObject::detach(const Napi::CallbackInfo &info)
{
	REQUIRE_LOADED();
	REQUIRE_PROGRAM(0, program);
	links_.erase(program);
	return info.Env().Undefined();
}

Napi::Value NativeObject::detach_all(const Napi::CallbackInfo &info)
{
	REQUIRE_LOADED();
	links_.clear();
	return info.Env().Undefined();
}

/* (program, dataIn, dataOut, ctxIn: Uint8Array | undefined, repeat): [return value, ns, bytes of dataOut] */
Napi::Value NativeObject::test_run(const Napi::CallbackInfo &info)
{
	REQUIRE_LOADED_PROGRAM(0, program);
	REQUIRE_BYTES_OR_UNDEFINED(1, data_in);
	REQUIRE_BYTES_OR_UNDEFINED(2, data_out);
	REQUIRE_BYTES_OR_UNDEFINED(3, ctx_in);
	REQUIRE_UINT32(4, repeat);
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = data_in.data, .data_out = data_out.data,
		    .data_size_in = uint32_t(data_in.size), .data_size_out = uint32_t(data_out.size),
		    .ctx_in = ctx_in.data, .ctx_size_in = uint32_t(ctx_in.size), .repeat = int(repeat));
	if (bpf_prog_test_run_opts(bpf_program__fd(program), &options) < 0) {
		throw_bpf(info.Env(), "bpf_prog_test_run_opts", errno, nullptr, program_name);
		return info.Env().Undefined();
	}
	Napi::Array result = Napi::Array::New(info.Env(), 3);
	result.Set(0u, Napi::Number::New(info.Env(), options.retval));
	result.Set(1u, Napi::Number::New(info.Env(), options.duration));
	result.Set(2u, Napi::Number::New(info.Env(), options.data_size_out));
	return result;
}

/* (program): the output that the iterator wrote with bpf_seq_write() and bpf_seq_printf() */
Napi::Value NativeObject::iterate(const Napi::CallbackInfo &info)
{
	REQUIRE_LOADED_PROGRAM(0, program);
	if (bpf_program__expected_attach_type(program) != BPF_TRACE_ITER) {
		throw_code(info.Env(), "ERR_WRONG_TYPE", "Program '" + program_name + "' is not an iterator");
		return info.Env().Undefined();
	}
	LibbpfLog log;
	const LinkPointer link(bpf_program__attach_iter(program, nullptr));
	if (link == nullptr) {
		throw_bpf(info.Env(), "bpf_program__attach_iter", errno, &log, program_name);
		return info.Env().Undefined();
	}
	const int fd = bpf_iter_create(bpf_link__fd(link.get()));
	if (fd < 0) {
		throw_bpf(info.Env(), "bpf_iter_create", errno, &log, program_name);
		return info.Env().Undefined();
	}
	std::vector<uint8_t> output;
	const int error = read_to_end(fd, &output);
	::close(fd);
	if (error != 0) {
		throw_bpf(info.Env(), "read", error, nullptr, program_name);
		return info.Env().Undefined();
	}
	Napi::Uint8Array result = Napi::Uint8Array::New(info.Env(), output.size());
	if (!output.empty())
		memcpy(result.Data(), output.data(), output.size());
	return result;
}

Napi::Value NativeObject::program_stats(const Napi::CallbackInfo &info)
{
	REQUIRE_LOADED();
	const Napi::Env env = info.Env();
	Napi::Array list = Napi::Array::New(env);
	bpf_program *program;
	bpf_object__for_each_program(program, object_.get())
	{
		if (bpf_program__fd(program) < 0)
			continue;
		bpf_prog_info stats = {};
		uint32_t stats_bytes = sizeof(stats);
		if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &stats, &stats_bytes) < 0) {
			throw_bpf(env, "bpf_obj_get_info_by_fd", errno, nullptr, bpf_program__name(program));
			return env.Undefined();
		}
		Napi::Object entry = Napi::Object::New(env);
		entry.Set("name", bpf_program__name(program));
		entry.Set("id", Napi::Number::New(env, stats.id));
		entry.Set("runCount", Napi::BigInt::New(env, uint64_t(stats.run_cnt)));
		entry.Set("runTimeNs", Napi::BigInt::New(env, uint64_t(stats.run_time_ns)));
		entry.Set("recursionMisses", Napi::BigInt::New(env, uint64_t(stats.recursion_misses)));
		list.Set(list.Length(), entry);
	}
	return list;
}

/* (on: boolean). The kernel counts while such an fd is open, or kernel.bpf_stats_enabled is 1. */
Napi::Value NativeObject::set_run_stats(const Napi::CallbackInfo &info)
{
	REQUIRE_NOT_CLOSED();
	REQUIRE_BOOLEAN(0, on);
	if (!on && run_stats_fd_ >= 0) {
		::close(run_stats_fd_);
		run_stats_fd_ = -1;
	}
	if (on && run_stats_fd_ < 0) {
		run_stats_fd_ = bpf_enable_stats(BPF_STATS_RUN_TIME);
		if (run_stats_fd_ < 0)
			throw_bpf(info.Env(), "bpf_enable_stats", errno);
	}
	return info.Env().Undefined();
}
