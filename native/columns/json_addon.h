#pragma once

#include <napi.h>

/* Adds the functions that bpf/schema/native_json.ts declares. */
void export_json(Napi::Env env, Napi::Object exports);
