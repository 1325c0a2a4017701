#pragma once

#include <napi.h>

/* Queries of the kernel that need no BPF object. Each is a plain function of the addon. */

/* clock.cc */
Napi::Value read_clocks(const Napi::CallbackInfo &info);
Napi::Value clock_state(const Napi::CallbackInfo &info);

/* features.cc */
Napi::Value features(const Napi::CallbackInfo &info);
Napi::Value possible_cpus(const Napi::CallbackInfo &info);

/* kernel_btf.cc */
Napi::Value btf_field_exists(const Napi::CallbackInfo &info);
Napi::Value btf_enumerator(const Napi::CallbackInfo &info);
Napi::Value btf_argument_counts(const Napi::CallbackInfo &info);
void drop_kernel_types(const Napi::CallbackInfo &info);

/* preemption.cc */
Napi::Value tracepoints_are_preempted(const Napi::CallbackInfo &info);
