#pragma once

#include <napi.h>
#include <string>

class LibbpfLog;

/*
 * Every error carries a string `code`; callers compare that, never the class: under Jest an addon is shared
 * by realms that each have their own Error.
 */

/* A call in the wrong state, or about a thing that isn't there. */
void throw_code(Napi::Env env, const char *code, const std::string &message);
/* RangeError ERR_OUT_OF_RANGE and TypeError ERR_INVALID_ARG_TYPE. */
void throw_range(Napi::Env env, const char *code, const std::string &message);
void throw_type(Napi::Env env, const std::string &message);

/*
 * The kernel or libbpf refused: `code`, `errno` and `syscall` (index.ts makes a BpfError of it). error:
 * positive errno value, or one of libbpf's from 4000. program: the one it happened to, or empty.
 */
void throw_bpf(Napi::Env env, const char *function, int error, const LibbpfLog *log = nullptr,
	       const std::string &program = "");

/* Likewise ERR_BPF_FORMAT, of what is not even given to libbpf. */
void throw_malformed(Napi::Env env, const char *function, const std::string &fault);
