#pragma once

#include <napi.h>

/* Adds the functions that bpf/schema/native_text_rows.ts declares. */
void export_text_rows(Napi::Env env, Napi::Object exports);
