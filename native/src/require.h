#pragma once

#include "errors.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <napi.h>
#include <string>

/*
 * Preconditions for the top of each method, with uniform messages. Each macro throws and returns if it fails; a macro
 * for an argument declares a variable of the given name. They expect `info` in scope.
 */

struct Bytes {
	uint8_t *data;
	size_t size;
};

inline bool is_bytes(const Napi::Value &value)
{
	return value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == napi_uint8_array;
}

inline Bytes as_bytes(const Napi::Value &value)
{
	Napi::Uint8Array array = value.As<Napi::Uint8Array>();
	return {array.Data(), array.ByteLength()};
}

inline bool is_strings(const Napi::Value &value)
{
	if (!value.IsArray())
		return false;
	const Napi::Array array = value.As<Napi::Array>();
	for (uint32_t i = 0; i < array.Length(); i++) {
		if (!array.Get(i).IsString())
			return false;
	}
	return true;
}

inline bool is_uint32(const Napi::Value &value)
{
	if (!value.IsNumber())
		return false;
	const double number = value.As<Napi::Number>().DoubleValue();
	return number >= 0 && number <= std::numeric_limits<uint32_t>::max() && std::floor(number) == number;
}

#define REQUIRE_STRING(at, name)                                                                                       \
	if (!info[at].IsString()) {                                                                                    \
		throw_type(info.Env(), "Expected '" #name "' to be a string");                                         \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	const std::string name = info[at].As<Napi::String>().Utf8Value()

#define REQUIRE_STRINGS(at, name)                                                                                      \
	if (!is_strings(info[at])) {                                                                                   \
		throw_type(info.Env(), "Expected '" #name "' to be an array of strings");                              \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	const Napi::Array name = info[at].As<Napi::Array>()

#define REQUIRE_BOOLEAN(at, name)                                                                                      \
	if (!info[at].IsBoolean()) {                                                                                   \
		throw_type(info.Env(), "Expected '" #name "' to be a boolean");                                        \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	const bool name = info[at].As<Napi::Boolean>().Value()

#define REQUIRE_UINT32(at, name)                                                                                       \
	if (!is_uint32(info[at])) {                                                                                    \
		throw_type(info.Env(), "Expected '" #name "' to be an integer from 0 to 4294967295");                  \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	const uint32_t name = info[at].As<Napi::Number>().Uint32Value()

#define REQUIRE_BYTES(at, name)                                                                                        \
	if (!is_bytes(info[at])) {                                                                                     \
		throw_type(info.Env(), "Expected '" #name "' to be a Uint8Array");                                     \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	const Bytes name = as_bytes(info[at])

#define REQUIRE_BYTES_OR_UNDEFINED(at, name)                                                                           \
	if (!info[at].IsUndefined() && !is_bytes(info[at])) {                                                          \
		throw_type(info.Env(), "Expected '" #name "' to be a Uint8Array");                                     \
		return info.Env().Undefined();                                                                         \
	}                                                                                                              \
	const Bytes name = info[at].IsUndefined() ? Bytes{nullptr, 0} : as_bytes(info[at])

#define REQUIRE_SIZE(name, expected)                                                                                   \
	if ((name).size != (expected)) {                                                                               \
		throw_range(info.Env(), "ERR_OUT_OF_RANGE",                                                            \
			    "Expected '" #name "' to have " + std::to_string(expected) + " bytes, it has " +           \
				std::to_string((name).size));                                                          \
		return info.Env().Undefined();                                                                         \
	}
