#include "sums_addon.h"

#include "arguments.h"
#include "owned.h"
#include "sums.h"

#include <cstring>
#include <vector>

namespace
{

constexpr size_t kWidthMax = 16;
/* Limit of group numbers, so that a wrong one does not allocate a table of gigabytes. */
constexpr uint32_t kNumberMax = 1 << 20;

/* Codes are compared as bytes, so numbers of any kind will do. */
size_t code_width(napi_typedarray_type type)
{
	return type == napi_float64_array ? sizeof(double) : width_of(type);
}

/* Reads `count` arrays of at least `rows` values each. */
bool read_codes(const Napi::Value &value, size_t count, size_t rows, std::vector<Codes> &codes)
{
	if (!value.IsArray() || value.As<Napi::Array>().Length() != count)
		return false;
	codes.resize(count);
	for (uint32_t i = 0; i < count; i++) {
		Array array;
		if (!read_array(value.As<Napi::Array>().Get(i), array) || code_width(array.type) == 0 ||
		    array.length < rows)
			return false;
		codes[i] = {array.data, code_width(array.type)};
	}
	return true;
}

/* (number of columns with codes) -> groups */
Napi::Value create_groups(const Napi::CallbackInfo &info)
{
	size_t width;
	if (!read_size(info[0], width) || width > kWidthMax)
		return wrong_arguments(info);
	return owned(info.Env(), new Groups(width));
}

/* (groups, codes, from, to, numbers: Uint32Array) -> the first row of an unknown group, or `to` */
Napi::Value find_groups(const Napi::CallbackInfo &info)
{
	Groups *groups = read_owned<Groups>(info[0]);
	std::vector<Codes> codes;
	Array numbers;
	size_t from, to;
	if (!groups || !read_size(info[2], from) || !read_size(info[3], to) || from > to ||
	    !read_codes(info[1], groups->width(), to, codes) || !read_indexes(info[4], numbers) || numbers.length < to)
		return wrong_arguments(info);
	const size_t end = groups->find(codes, from, to, reinterpret_cast<uint32_t *>(numbers.data));
	return Napi::Number::New(info.Env(), static_cast<double>(end));
}

/* (groups, codes, row, number): the group of the row has this number */
Napi::Value add_group(const Napi::CallbackInfo &info)
{
	Groups *groups = read_owned<Groups>(info[0]);
	std::vector<Codes> codes;
	size_t row, number;
	if (!groups || !read_size(info[2], row) || !read_codes(info[1], groups->width(), row + 1, codes) ||
	    !read_size(info[3], number) || number > kNumberMax)
		return wrong_arguments(info);
	groups->add(codes, row, static_cast<uint32_t>(number));
	return info.Env().Undefined();
}

/* () -> sums */
Napi::Value create_sums(const Napi::CallbackInfo &info)
{
	return owned(info.Env(), new GroupedSums());
}

/* (sums, numbers: Uint32Array, from, to, durations, results) -> number of groups that have rows */
Napi::Value add_rows(const Napi::CallbackInfo &info)
{
	GroupedSums *sums = read_owned<GroupedSums>(info[0]);
	Array numbers;
	Values durations, results;
	size_t from, to;
	if (!sums || !read_indexes(info[1], numbers) || !read_size(info[2], from) || !read_size(info[3], to) ||
	    !read_values(info[4], durations) || !read_values(info[5], results) || durations.width != 8 ||
	    results.width != 8 || from > to || to > numbers.length || to > durations.count || to > results.count)
		return wrong_arguments(info);
	const uint32_t *of_rows = reinterpret_cast<const uint32_t *>(numbers.data);
	for (size_t row = from; row < to; row++) {
		if (of_rows[row] > kNumberMax)
			return wrong_arguments(info);
	}
	sums->add(of_rows, from, to, reinterpret_cast<const uint64_t *>(durations.data),
		  reinterpret_cast<const uint64_t *>(results.data));
	return Napi::Number::New(info.Env(), static_cast<double>(sums->all().size()));
}

Napi::BigInt big_int(Napi::Env env, unsigned __int128 value)
{
	const uint64_t words[2] = {static_cast<uint64_t>(value), static_cast<uint64_t>(value >> 64)};
	return Napi::BigInt::New(env, 0, 2, words);
}

Napi::Object object_of(Napi::Env env, const GroupedSums::Group &group)
{
	const Cell &cell = group.cell;
	Napi::Object object = Napi::Object::New(env);
	object.Set("number", Napi::Number::New(env, group.number));
	object.Set("count", Napi::Number::New(env, static_cast<double>(cell.count)));
	object.Set("errorCount", Napi::Number::New(env, static_cast<double>(cell.error_count)));
	object.Set("maxNs", big_int(env, cell.max));
	object.Set("durationNs", big_int(env, cell.duration_sum));
	object.Set("bytes", big_int(env, cell.result_sum));
	Napi::Array blocks = Napi::Array::New(env, Histogram::kBlocks);
	for (uint32_t i = 0; i < Histogram::kBlocks; i++) {
		const auto &block = cell.durations.blocks[i];
		if (!block)
			continue;
		Napi::Float64Array counts = Napi::Float64Array::New(env, Histogram::kSlots);
		std::memcpy(counts.Data(), block->data(), sizeof(Histogram::Block));
		blocks.Set(i, counts);
	}
	object.Set("blocks", blocks);
	return object;
}

/* (sums) -> [{number, count, errorCount, maxNs, durationNs, bytes, blocks}]; the sums are empty afterwards */
Napi::Value take_sums(const Napi::CallbackInfo &info)
{
	GroupedSums *sums = read_owned<GroupedSums>(info[0]);
	if (!sums)
		return wrong_arguments(info);
	Napi::Array taken = Napi::Array::New(info.Env());
	for (const GroupedSums::Group &group : sums->all())
		taken.Set(taken.Length(), object_of(info.Env(), group));
	sums->clear();
	return taken;
}

} // namespace

void export_sums(Napi::Env env, Napi::Object exports)
{
	exports.Set("createGroups", Napi::Function::New<create_groups>(env));
	exports.Set("findGroups", Napi::Function::New<find_groups>(env));
	exports.Set("addGroup", Napi::Function::New<add_group>(env));
	exports.Set("createSums", Napi::Function::New<create_sums>(env));
	exports.Set("addRows", Napi::Function::New<add_rows>(env));
	exports.Set("takeSums", Napi::Function::New<take_sums>(env));
}
