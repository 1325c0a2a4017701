#include "object.h"
#include "kernel.h"
#include "libbpf_log.h"

#include <napi.h>

/*
 * Registers the addon's functions. The sources:
 *
 * object.cc      open, configure, load, close          programs.cc  attach, run, read, measure
 * variables.cc   const volatile globals                maps.cc      get, set, delete, keys
 * rings.cc       ring buffers, over ring_reader.cc (which is independent of Node)
 * kernel.h       clock.cc, features.cc, kernel_btf.cc, preemption.cc
 * errors.cc, require.h, libbpf_log.cc
 */
static Napi::Object initialize(Napi::Env env, Napi::Object exports)
{
	LibbpfLog::install();
	exports.Set("NativeObject", NativeObject::define(env));
	exports.Set("readClocks", Napi::Function::New<read_clocks>(env));
	exports.Set("clockState", Napi::Function::New<clock_state>(env));
	exports.Set("features", Napi::Function::New<features>(env));
	exports.Set("possibleCpus", Napi::Function::New<possible_cpus>(env));
	exports.Set("btfFieldExists", Napi::Function::New<btf_field_exists>(env));
	exports.Set("btfEnumerator", Napi::Function::New<btf_enumerator>(env));
	exports.Set("btfArgumentCounts", Napi::Function::New<btf_argument_counts>(env));
	exports.Set("dropKernelTypes", Napi::Function::New<drop_kernel_types>(env));
	exports.Set("tracepointsArePreempted", Napi::Function::New<tracepoints_are_preempted>(env));
	return exports;
}

NODE_API_MODULE(libbpf_ts, initialize)
