#pragma once

#include "columns.h"

#include <napi.h>

/* Reads the arguments of the functions that this addon exports. Each function returns false for another type. */

/* The memory of a typed array, which may be shared with another thread. */
struct Array {
	napi_typedarray_type type;
	uint8_t *data;
	size_t length;
};

bool read_array(const Napi::Value &value, Array &array);
bool read_bytes(const Napi::Value &value, Array &array);
bool read_indexes(const Napi::Value &value, Array &array);
bool read_values(const Napi::Value &value, Values &values);
bool read_size(const Napi::Value &value, size_t &size);

/* The size of one value in bytes; 0 for an array that columns do not have. */
size_t width_of(napi_typedarray_type type);

/* Throws, because a wrong argument is a bug of the caller. */
Napi::Value wrong_arguments(const Napi::CallbackInfo &info);
