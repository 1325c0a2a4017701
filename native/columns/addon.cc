#include "arguments.h"
#include "columns.h"
#include "frames.h"
#include "gather.h"
#include "text_rows_addon.h"
#include "select.h"
#include "shipment_addon.h"
#include "sums_addon.h"

#include <algorithm>
#include <cstring>
#include <napi.h>
#include <vector>

/*
 * The functions that bpf/schema/native_columns.ts declares. Arguments are checked here: a wrong one is a bug of the
 * caller and throws; damaged bytes are reported by the return value.
 *
 *   gather.cc   fields of records -> values      columns.cc     values <-> planes
 *   frames.cc   bytes <-> zstd frames            text_rows.cc   values -> JSON, CSV
 *   select.cc   values -> rows                 sums.cc        values -> sums by group
 *   shipment.cc values -> blocks of FORMAT Native
 */

namespace
{

const uint32_t *indexes_of(const Array &array)
{
	return reinterpret_cast<const uint32_t *>(array.data);
}

/* Without an early end, the compiler vectorizes the loop. */
bool all_below(const uint32_t *indexes, size_t count, size_t end)
{
	uint32_t last = 0;
	for (size_t i = 0; i < count; i++)
		last = std::max(last, indexes[i]);
	return count == 0 || last < end;
}

bool all_below(const Array &indexes, size_t end)
{
	return all_below(indexes_of(indexes), indexes.length, end);
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

/* The rows [0, count) of an array, which must all be below `end`. */
bool read_rows(const Napi::Value &value, const Napi::Value &counted, size_t end, Array &rows, size_t &count)
{
	return read_indexes(value, rows) && read_size(counted, count) && count <= rows.length &&
	       all_below(indexes_of(rows), count, end);
}

bool read_bound(const Napi::Value &value, uint64_t &bound)
{
	bool lossless = false;
	if (value.IsBigInt())
		bound = value.As<Napi::BigInt>().Uint64Value(&lossless);
	return lossless;
}

/* (values, min: bigint, max: bigint, rows: Uint32Array, count) -> count of those that are kept at the front */
Napi::Value keep_rows_within(const Napi::CallbackInfo &info)
{
	Values values;
	Array rows;
	uint64_t min = 0, max = 0;
	size_t count;
	if (!read_values(info[0], values) || !read_bound(info[1], min) || !read_bound(info[2], max) || min > max ||
	    !read_rows(info[3], info[4], values.count, rows, count))
		return wrong_arguments(info);
	const size_t kept = keep_within(values, min, max, reinterpret_cast<uint32_t *>(rows.data), count);
	return Napi::Number::New(info.Env(), static_cast<double>(kept));
}

/* (values, sorted: Uint32Array, rows: Uint32Array, count) -> count of those that are kept at the front */
Napi::Value keep_rows_of(const Napi::CallbackInfo &info)
{
	Values values;
	Array sorted, rows;
	size_t count;
	if (!read_values(info[0], values) || !read_indexes(info[1], sorted) ||
	    !read_rows(info[2], info[3], values.count, rows, count))
		return wrong_arguments(info);
	const size_t kept =
	    keep_one_of(values, {indexes_of(sorted), sorted.length}, reinterpret_cast<uint32_t *>(rows.data), count);
	return Napi::Number::New(info.Env(), static_cast<double>(kept));
}

/* (values, sorted: Uint32Array, rows: Uint32Array | undefined, marks: Uint8Array) */
Napi::Value mark_rows_of(const Napi::CallbackInfo &info)
{
	Values values;
	Array sorted, rows = {}, marks;
	if (!read_values(info[0], values) || !read_indexes(info[1], sorted) || !read_bytes(info[3], marks))
		return wrong_arguments(info);
	const bool has_rows = !info[2].IsUndefined();
	if (has_rows ? !read_indexes(info[2], rows) || rows.length < values.count ||
			   !all_below(indexes_of(rows), values.count, marks.length)
		     : values.count > marks.length)
		return wrong_arguments(info);
	mark_one_of(values, {indexes_of(sorted), sorted.length}, has_rows ? indexes_of(rows) : nullptr, marks.data);
	return info.Env().Undefined();
}

/* (types: Uint8Array, counts: Uint32Array, places: Uint32Array | undefined) */
Napi::Value place_rows_by_type(const Napi::CallbackInfo &info)
{
	Array types, counts, places = {};
	if (!read_bytes(info[0], types) || !read_indexes(info[1], counts) || counts.length != 256)
		return wrong_arguments(info);
	const bool has_places = !info[2].IsUndefined();
	if (has_places && (!read_indexes(info[2], places) || places.length < types.length))
		return wrong_arguments(info);
	place_rows({types.data, types.length}, reinterpret_cast<uint32_t *>(counts.data),
		   has_places ? reinterpret_cast<uint32_t *>(places.data) : nullptr);
	return info.Env().Undefined();
}

/* (types: Uint8Array, type, rows: Uint32Array) -> count of all that there are */
Napi::Value rows_of_one_type(const Napi::CallbackInfo &info)
{
	Array types, rows;
	size_t type;
	if (!read_bytes(info[0], types) || !read_size(info[1], type) || type > UINT8_MAX ||
	    !read_indexes(info[2], rows))
		return wrong_arguments(info);
	const size_t count = rows_of_type({types.data, types.length}, static_cast<uint8_t>(type),
					  reinterpret_cast<uint32_t *>(rows.data), rows.length);
	return Napi::Number::New(info.Env(), static_cast<double>(count));
}

/* (times: BigUint64Array, rows: Uint32Array, descending, sorted: BigUint64Array) */
Napi::Value sort_rows_by_time(const Napi::CallbackInfo &info)
{
	Values times, sorted;
	Array rows;
	if (!read_values(info[0], times) || times.width != 8 || !read_indexes(info[1], rows) || !info[2].IsBoolean() ||
	    !read_values(info[3], sorted) || sorted.width != 8 || sorted.count < rows.length ||
	    !all_below(rows, times.count))
		return wrong_arguments(info);
	sort_rows(reinterpret_cast<const uint64_t *>(times.data), reinterpret_cast<uint32_t *>(rows.data), rows.length,
		  info[2].As<Napi::Boolean>().Value(), reinterpret_cast<uint64_t *>(sorted.data));
	return info.Env().Undefined();
}

/* (source, from: Uint32Array, target, to: Uint32Array): target[to[i]] = source[from[i]] */
Napi::Value scatter_values(const Napi::CallbackInfo &info)
{
	Values source, target;
	Array from, to;
	if (!read_values(info[0], source) || !read_indexes(info[1], from) || !read_values(info[2], target) ||
	    !read_indexes(info[3], to) || source.width != target.width || from.length != to.length ||
	    !all_below(from, source.count) || !all_below(to, target.count))
		return wrong_arguments(info);
	scatter(source, indexes_of(from), target, indexes_of(to), from.length);
	return info.Env().Undefined();
}

Napi::Object initialize(Napi::Env env, Napi::Object exports)
{
	exports.Set("gatherFields", Napi::Function::New<gather>(env));
	exports.Set("encodeColumn", Napi::Function::New<encode>(env));
	exports.Set("decodeColumn", Napi::Function::New<decode>(env));
	exports.Set("copyValues", Napi::Function::New<copy>(env));
	exports.Set("pickValues", Napi::Function::New<pick>(env));
	exports.Set("keepRowsWithin", Napi::Function::New<keep_rows_within>(env));
	exports.Set("keepSortedRows", Napi::Function::New<keep_rows_of>(env));
	exports.Set("markSortedRows", Napi::Function::New<mark_rows_of>(env));
	exports.Set("placeRows", Napi::Function::New<place_rows_by_type>(env));
	exports.Set("rowsOfType", Napi::Function::New<rows_of_one_type>(env));
	exports.Set("sortRows", Napi::Function::New<sort_rows_by_time>(env));
	exports.Set("scatterValues", Napi::Function::New<scatter_values>(env));
	exports.Set("compressFrame", Napi::Function::New<compress>(env));
	exports.Set("decompressFrame", Napi::Function::New<decompress>(env));
	export_text_rows(env, exports);
	export_sums(env, exports);
	export_shipment(env, exports);
	return exports;
}

} // namespace

NODE_API_MODULE(columns, initialize)
