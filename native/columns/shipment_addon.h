#pragma once

#include <napi.h>

/* Adds the functions that bpf/schema/native_shipment.ts declares. */
void export_shipment(Napi::Env env, Napi::Object exports);
