#pragma once

#include <napi.h>
#include <string>

class LibbpfLog;

/*
 * Every error carries a string `code`; callers compare that, never the class: under Jest an addon is shared
 * by realms that each have their own Error.
 */

/* Throws for a call in the wrong state, or for something that does not exist. */
void throw_code(Napi::Env env, const char *code, const std::string &message);
/* Throw RangeError (ERR_OUT_OF_RANGE) and TypeError (ERR_INVALID_ARG_TYPE). */
void throw_range(Napi::Env env, const char *code, const std::string &message);
void throw_type(Napi::Env env, const std::string &message);

/*
 * Throws a refusal by the kernel or libbpf with `code`, `errno` and `syscall` (errors.ts makes a BpfError of it).
 * error: an errno value, or one of libbpf's, which start at 4000. program: the one that failed, or empty.
 */
void throw_bpf(Napi::Env env, const char *function, int error, const LibbpfLog *log = nullptr,
	       const std::string &program = "");

/* Throws ERR_BPF_FORMAT in the same form, for a file that is rejected before libbpf reads it. */
void throw_malformed(Napi::Env env, const char *function, const std::string &fault);
