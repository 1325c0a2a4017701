#pragma once

#include <napi.h>

/* Adds the functions that bpf/schema/native_sums.ts declares. */
void export_sums(Napi::Env env, Napi::Object exports);
