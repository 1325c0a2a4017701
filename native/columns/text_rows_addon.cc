#include "text_rows_addon.h"

#include "arguments.h"
#include "text_rows.h"
#include "owned.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace
{

/* Indexes of `state`: from where to write and where the written rows end. */
enum State { kRow, kOffset, kTable, kStateLength };

constexpr size_t kKeyBytes = sizeof(TextKey::values);
constexpr size_t kTablesMax = 1024;

std::string_view text_of(const Array &array)
{
	return {reinterpret_cast<const char *>(array.data), array.length};
}

bool read_part(const Napi::Value &value, Part &part)
{
	if (!value.IsObject())
		return false;
	const Napi::Object object = value.As<Napi::Object>();
	Array before, after, none, columns;
	size_t op, table;
	if (!read_size(object.Get("op"), op) || op >= static_cast<size_t>(Op::count) ||
	    !read_bytes(object.Get("before"), before) || !read_bytes(object.Get("after"), after) ||
	    !read_bytes(object.Get("none"), none) || !read_indexes(object.Get("columns"), columns) ||
	    !read_size(object.Get("table"), table) || table >= kTablesMax)
		return false;
	const uint32_t *first = reinterpret_cast<const uint32_t *>(columns.data);
	part.op = static_cast<Op>(op);
	part.before.assign(text_of(before));
	part.after.assign(text_of(after));
	part.none.assign(text_of(none));
	part.columns.assign(first, first + columns.length);
	part.table = static_cast<uint32_t>(table);
	const Napi::Value unknown = object.Get("unknown");
	bool lossless = false;
	if (unknown.IsBigInt())
		part.unknown = unknown.As<Napi::BigInt>().Uint64Value(&lossless);
	return unknown.IsUndefined() || lossless;
}

/* Reads the parts, and raises `tables` above the table of each. */
bool read_parts(const Napi::Value &value, std::vector<Part> &parts, size_t &tables)
{
	if (!value.IsArray())
		return false;
	const Napi::Array array = value.As<Napi::Array>();
	parts.resize(array.Length());
	for (uint32_t i = 0; i < array.Length(); i++) {
		if (!read_part(array.Get(i), parts[i]))
			return false;
		tables = std::max<size_t>(tables, parts[i].table + 1);
	}
	return true;
}

/* (number of columns, type column, common parts, own parts: one list for each event type, or undefined) -> layout */
Napi::Value create_layout(const Napi::CallbackInfo &info)
{
	auto layout = std::make_unique<Layout>();
	size_t type_column;
	if (!read_size(info[0], layout->columns) || !read_size(info[1], type_column) || type_column > UINT32_MAX ||
	    !read_parts(info[2], layout->common, layout->tables) || !info[3].IsArray())
		return wrong_arguments(info);
	layout->type_column = static_cast<uint32_t>(type_column);
	const Napi::Array own = info[3].As<Napi::Array>();
	for (uint32_t type = 0; type < own.Length() && type < layout->own.size(); type++) {
		const Napi::Value parts = own.Get(type);
		if (!parts.IsUndefined() && !read_parts(parts, layout->own[type].emplace(), layout->tables))
			return wrong_arguments(info);
	}
	if (!is_valid(*layout))
		return wrong_arguments(info);
	return owned(info.Env(), layout.release());
}

/* () -> texts */
Napi::Value create_texts(const Napi::CallbackInfo &info)
{
	return owned(info.Env(), new Texts());
}

/* (texts, table, key: Uint8Array, text: Uint8Array): keeps the text */
Napi::Value add_text(const Napi::CallbackInfo &info)
{
	Array key, text;
	size_t table;
	Texts *texts = read_owned<Texts>(info[0]);
	if (!texts || !read_size(info[1], table) || !read_bytes(info[2], key) || key.length != kKeyBytes ||
	    !read_bytes(info[3], text) || text.length > UINT32_MAX / 2)
		return wrong_arguments(info);
	TextKey made = {{0, 0}, static_cast<uint32_t>(table)};
	std::memcpy(made.values.data(), key.data, kKeyBytes);
	texts->add(made, text_of(text));
	return info.Env().Undefined();
}

/* Reads the columns; one that the block lacks is undefined in JavaScript, and has no values here. */
bool read_columns(const Napi::Value &value, std::vector<Column> &columns)
{
	if (!value.IsArray())
		return false;
	const Napi::Array array = value.As<Napi::Array>();
	columns.assign(array.Length(), {nullptr, 0, 0, false});
	for (uint32_t i = 0; i < array.Length(); i++) {
		const Napi::Value column = array.Get(i);
		Array memory;
		if (column.IsUndefined())
			continue;
		if (!read_array(column, memory) || width_of(memory.type) == 0)
			return false;
		columns[i] = {memory.data, memory.length, width_of(memory.type),
			      memory.type == napi_int32_array || memory.type == napi_bigint64_array};
	}
	return true;
}

/*
 * (layout, texts, columns, own rows: Uint32Array, end of the rows, ending: Uint8Array, output: Uint8Array,
 *  state: Uint32Array, key: Uint8Array, ends: Uint32Array | undefined) -> 0 done, 1 full, 2 a text is missing
 *
 * Reads the row and the offset at which to begin from `state`, and sets them to those at which to go on.
 */
Napi::Value write_text_rows(const Napi::CallbackInfo &info)
{
	/* The vector is kept between calls. */
	static thread_local std::vector<Column> columns;
	Array own_rows, ending, output, state, key, ends = {};
	size_t to;
	const Layout *layout = read_owned<Layout>(info[0]);
	Texts *texts = read_owned<Texts>(info[1]);
	if (!layout || !texts || !read_columns(info[2], columns) || !read_indexes(info[3], own_rows) ||
	    !read_size(info[4], to) || to > own_rows.length || !read_bytes(info[5], ending) ||
	    !read_bytes(info[6], output) || !read_indexes(info[7], state) || state.length != kStateLength ||
	    !read_bytes(info[8], key) || key.length != kKeyBytes || columns.size() != layout->columns)
		return wrong_arguments(info);
	uint32_t *places = reinterpret_cast<uint32_t *>(state.data);
	if (places[kRow] > to || places[kOffset] > output.length)
		return wrong_arguments(info);
	if (!info[9].IsUndefined() && (!read_indexes(info[9], ends) || ends.length < to))
		return wrong_arguments(info);
	Rows rows = {columns, reinterpret_cast<const uint32_t *>(own_rows.data), places[kRow], to, text_of(ending)};
	Output written = {output.data, places[kOffset], output.length,
			  ends.data ? reinterpret_cast<uint32_t *>(ends.data) + rows.from : nullptr};
	TextKey missing = {};
	const Stopped stopped = write_rows(*layout, *texts, rows, written, missing);
	if (stopped == Stopped::wrong_columns)
		return wrong_arguments(info);
	/* Texts are dropped only after a row was written: those of one row stay together, however long they are. */
	if (rows.from > places[kRow])
		texts->limit();
	places[kRow] = static_cast<uint32_t>(rows.from);
	places[kOffset] = static_cast<uint32_t>(written.offset);
	places[kTable] = missing.table;
	std::memcpy(key.data, missing.values.data(), kKeyBytes);
	return Napi::Number::New(info.Env(), static_cast<double>(stopped));
}

} // namespace

void export_text_rows(Napi::Env env, Napi::Object exports)
{
	exports.Set("createRowLayout", Napi::Function::New<create_layout>(env));
	exports.Set("createRowTexts", Napi::Function::New<create_texts>(env));
	exports.Set("addRowText", Napi::Function::New<add_text>(env));
	exports.Set("writeTextRows", Napi::Function::New<write_text_rows>(env));
}
