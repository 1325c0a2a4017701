#include "columns.h"
#include "frames.h"
#include "gather.h"

#include <algorithm>
#include <cstring>
#include <napi.h>
#include <vector>

/*
 * The functions that bpf/schema/native_columns.ts declares. Arguments are checked here: a wrong one is a bug of the
 * caller and throws; damaged bytes are reported by the return value.
 *
 *   gather.cc   fields of records -> values      columns.cc   values <-> planes      frames.cc   bytes <-> zstd frames
 */

namespace
{

/* The memory of a typed array, which may be shared with another thread. */
struct Array {
	napi_typedarray_type type;
	uint8_t *data;
	size_t length;
};

bool read_array(const Napi::Value &value, Array &array)
{
	void *data = nullptr;
	if (napi_get_typedarray_info(value.Env(), value, &array.type, &array.length, &data, nullptr, nullptr) !=
	    napi_ok)
		return false;
	array.data = static_cast<uint8_t *>(data);
	return true;
}

size_t width_of(napi_typedarray_type type)
{
	switch (type) {
	case napi_uint8_array:
		return 1;
	case napi_uint16_array:
		return 2;
	case napi_uint32_array:
	case napi_int32_array:
		return 4;
	case napi_biguint64_array:
	case napi_bigint64_array:
		return 8;
	default:
		return 0;
	}
}

bool read_bytes(const Napi::Value &value, Array &array)
{
	return read_array(value, array) && array.type == napi_uint8_array;
}

bool read_indexes(const Napi::Value &value, Array &array)
{
	return read_array(value, array) && array.type == napi_uint32_array;
}

bool read_values(const Napi::Value &value, Values &values)
{
	Array array;
	if (!read_array(value, array) || width_of(array.type) == 0)
		return false;
	values = {array.data, array.length, width_of(array.type)};
	return true;
}

bool read_size(const Napi::Value &value, size_t &size)
{
	if (!value.IsNumber())
		return false;
	const int64_t number = value.As<Napi::Number>().Int64Value();
	size = static_cast<size_t>(number);
	return number >= 0;
}

Napi::Value wrong_arguments(const Napi::CallbackInfo &info)
{
	Napi::TypeError::New(info.Env(), "columns: an argument has a wrong type or size").ThrowAsJavaScriptException();
	return info.Env().Undefined();
}

/*
 * (records: Uint8Array, offsets: Uint32Array, count, field offsets: Uint32Array, columns): columns[f][i] is the field
 * at fieldOffsets[f] of the record at offsets[i]
 */
Napi::Value gather(const Napi::CallbackInfo &info)
{
	Array records, offsets, field_offsets;
	size_t count;
	if (!read_bytes(info[0], records) || !read_indexes(info[1], offsets) || !read_size(info[2], count) ||
	    !read_indexes(info[3], field_offsets) || !info[4].IsArray() || count > offsets.length)
		return wrong_arguments(info);
	const Napi::Array columns = info[4].As<Napi::Array>();
	if (columns.Length() != field_offsets.length)
		return wrong_arguments(info);
	std::vector<Field> fields(field_offsets.length);
	for (size_t i = 0; i < fields.size(); i++) {
		fields[i].offset = reinterpret_cast<const uint32_t *>(field_offsets.data)[i];
		if (!read_values(columns[i], fields[i].values) || fields[i].values.count < count)
			return wrong_arguments(info);
	}
	if (!gather_fields({records.data, records.length}, reinterpret_cast<const uint32_t *>(offsets.data), count,
			   fields))
		return wrong_arguments(info);
	return info.Env().Undefined();
}

/* (values, delta, output: Uint8Array, offset) -> offset of the end */
Napi::Value encode(const Napi::CallbackInfo &info)
{
	Values values;
	Array output;
	size_t offset;
	if (!read_values(info[0], values) || values.count == 0 || !info[1].IsBoolean() ||
	    !read_bytes(info[2], output) || !read_size(info[3], offset) || offset > output.length ||
	    output.length - offset < encoded_bytes_max(values))
		return wrong_arguments(info);
	const size_t bytes = encode_column(values, info[1].As<Napi::Boolean>().Value(), output.data + offset);
	return Napi::Number::New(info.Env(), static_cast<double>(offset + bytes));
}

/* (encoded: Uint8Array, values) -> whether the bytes encode exactly as many values */
Napi::Value decode(const Napi::CallbackInfo &info)
{
	Array encoded;
	Values values;
	if (!read_bytes(info[0], encoded) || !read_values(info[1], values))
		return wrong_arguments(info);
	return Napi::Boolean::New(info.Env(), decode_column({encoded.data, encoded.length}, values));
}

bool all_below(const Array &indexes, size_t end)
{
	const uint32_t *first = reinterpret_cast<const uint32_t *>(indexes.data);
	return std::all_of(first, first + indexes.length, [end](uint32_t index) { return index < end; });
}

/* (encoded: Uint8Array, count, rows: Uint32Array, target, targets: Uint32Array) -> picked?; undefined if damaged */
Napi::Value pick(const Napi::CallbackInfo &info)
{
	Array encoded, rows, targets;
	Values to;
	size_t count;
	if (!read_bytes(info[0], encoded) || !read_size(info[1], count) || !read_indexes(info[2], rows) ||
	    !read_values(info[3], to) || !read_indexes(info[4], targets) || rows.length != targets.length ||
	    !all_below(rows, count) || !all_below(targets, to.count))
		return wrong_arguments(info);
	const Picked picked =
	    pick_values({encoded.data, encoded.length}, count, reinterpret_cast<const uint32_t *>(rows.data),
			reinterpret_cast<const uint32_t *>(targets.data), rows.length, to);
	if (picked == Picked::damaged)
		return info.Env().Undefined();
	return Napi::Boolean::New(info.Env(), picked == Picked::yes);
}

/* (input: Uint8Array, output: Uint8Array, offset) -> bytes written there, 0 if there is no room */
Napi::Value compress(const Napi::CallbackInfo &info)
{
	Array input, output;
	size_t offset;
	if (!read_bytes(info[0], input) || !read_bytes(info[1], output) || !read_size(info[2], offset) ||
	    offset > output.length)
		return wrong_arguments(info);
	const size_t bytes = compress_frame(input.data, input.length, output.data + offset, output.length - offset);
	return Napi::Number::New(info.Env(), static_cast<double>(bytes));
}

/* (input: Uint8Array, output: Uint8Array) -> whether the input is one frame that fills the output */
Napi::Value decompress(const Napi::CallbackInfo &info)
{
	Array input, output;
	if (!read_bytes(info[0], input) || !read_bytes(info[1], output))
		return wrong_arguments(info);
	return Napi::Boolean::New(info.Env(), decompress_frame(input.data, input.length, output.data, output.length));
}

/* (source, from, to, target, at): target[at ...] = source[from, to) */
Napi::Value copy(const Napi::CallbackInfo &info)
{
	Values source, target;
	size_t from, to, at;
	if (!read_values(info[0], source) || !read_size(info[1], from) || !read_size(info[2], to) ||
	    !read_values(info[3], target) || !read_size(info[4], at) || source.width != target.width || from > to ||
	    to > source.count || at > target.count || to - from > target.count - at)
		return wrong_arguments(info);
	std::memmove(target.data + at * target.width, source.data + from * source.width, (to - from) * source.width);
	return info.Env().Undefined();
}

Napi::Object initialize(Napi::Env env, Napi::Object exports)
{
	exports.Set("gatherFields", Napi::Function::New<gather>(env));
	exports.Set("encodeColumn", Napi::Function::New<encode>(env));
	exports.Set("decodeColumn", Napi::Function::New<decode>(env));
	exports.Set("copyValues", Napi::Function::New<copy>(env));
	exports.Set("pickValues", Napi::Function::New<pick>(env));
	exports.Set("compressFrame", Napi::Function::New<compress>(env));
	exports.Set("decompressFrame", Napi::Function::New<decompress>(env));
	return exports;
}

} // namespace

NODE_API_MODULE(columns, initialize)
