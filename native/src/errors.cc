#include "errors.h"
#include "libbpf_log.h"

#include <bpf/libbpf.h>
#include <cstdlib>
#include <cstring>

namespace
{

/* The kernel's internal ENOTSUPP leaks to user space from bpf(2), and C libraries have no name for it. */
constexpr int kKernelEnotsupp = 524;

std::string error_name(int error)
{
	switch (error) {
	case kKernelEnotsupp:
		return "ENOTSUPP";
	case LIBBPF_ERRNO__LIBELF:
		return "ERR_LIBELF";
	case LIBBPF_ERRNO__FORMAT:
		return "ERR_BPF_FORMAT";
	case LIBBPF_ERRNO__KVERSION:
		return "ERR_BPF_KVERSION";
	case LIBBPF_ERRNO__ENDIAN:
		return "ERR_BPF_ENDIAN";
	case LIBBPF_ERRNO__RELOC:
		return "ERR_BPF_RELOC";
	case LIBBPF_ERRNO__VERIFY:
		return "ERR_BPF_VERIFY";
	}
	const char *name = strerrorname_np(error);
	return name != nullptr ? name : "ERR_BPF_" + std::to_string(error);
}

std::string error_text(int error)
{
	char text[128];
	if (error == kKernelEnotsupp)
		return "Operation is not supported by this kernel";
	libbpf_strerror(error, text, sizeof(text));
	return text;
}

/* The first line of libbpf's messages is the cause; later lines only report consequences. */
std::string first_line(const std::string &text)
{
	return text.substr(0, text.find('\n'));
}

} // namespace

void throw_code(Napi::Env env, const char *code, const std::string &message)
{
	Napi::Error error = Napi::Error::New(env, message);
	error.Set("code", Napi::String::New(env, code));
	error.ThrowAsJavaScriptException();
}

void throw_range(Napi::Env env, const char *code, const std::string &message)
{
	Napi::RangeError error = Napi::RangeError::New(env, message);
	error.Set("code", Napi::String::New(env, code));
	error.ThrowAsJavaScriptException();
}

void throw_type(Napi::Env env, const std::string &message)
{
	Napi::TypeError error = Napi::TypeError::New(env, message);
	error.Set("code", Napi::String::New(env, "ERR_INVALID_ARG_TYPE"));
	error.ThrowAsJavaScriptException();
}

void throw_bpf(Napi::Env env, const char *function, int number, const LibbpfLog *log, const std::string &program)
{
	number = std::abs(number);
	const std::string name = error_name(number);
	const std::string &blamed = program.empty() && log != nullptr ? log->program() : program;

	std::string message = std::string(function) + ": " + name + ": " + error_text(number);
	if (!blamed.empty())
		message += ", program '" + blamed + "'";
	if (log != nullptr && !log->messages().empty())
		message += " (" + first_line(log->messages()) + ")";

	Napi::Error error = Napi::Error::New(env, message);
	error.Set("code", Napi::String::New(env, name));
	error.Set("errno", Napi::Number::New(env, number));
	error.Set("syscall", Napi::String::New(env, function));
	if (!blamed.empty())
		error.Set("program", Napi::String::New(env, blamed));
	if (log != nullptr && !log->verifier_log().empty())
		error.Set("verifierLog", Napi::String::New(env, log->verifier_log()));
	if (log != nullptr && !log->messages().empty())
		error.Set("log", Napi::String::New(env, log->messages()));
	error.ThrowAsJavaScriptException();
}

void throw_malformed(Napi::Env env, const char *function, const std::string &fault)
{
	const std::string name = error_name(LIBBPF_ERRNO__FORMAT);
	Napi::Error error = Napi::Error::New(env, std::string(function) + ": " + name + ": " + fault);
	error.Set("code", Napi::String::New(env, name));
	error.Set("errno", Napi::Number::New(env, LIBBPF_ERRNO__FORMAT));
	error.Set("syscall", Napi::String::New(env, function));
	error.ThrowAsJavaScriptException();
}
