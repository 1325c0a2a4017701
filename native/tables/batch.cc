#include "batch.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

SQLITE_EXTENSION_INIT3

namespace
{

/* Once there are more keys than this, all are forgotten. */
constexpr size_t kTextsMax = 1 << 18;

napi_value property(napi_env env, napi_value object, const char *name)
{
	napi_value value = nullptr;
	napi_get_named_property(env, object, name, &value);
	return value;
}

napi_valuetype type_of(napi_env env, napi_value value)
{
	napi_valuetype type = napi_undefined;
	if (value)
		napi_typeof(env, value, &type);
	return type;
}

bool is_malformed(napi_env env)
{
	napi_throw_type_error(env, nullptr, "a batch of rows is malformed");
	return false;
}

bool read_values(napi_env env, napi_value array, Values &values)
{
	using enum Values::Storage;
	static const struct {
		napi_typedarray_type type;
		Values::Storage storage;
	} storages[] = {
	    {napi_uint8_array, u8},  {napi_uint16_array, u16},    {napi_uint32_array, u32},
	    {napi_int32_array, i32}, {napi_biguint64_array, u64}, {napi_bigint64_array, i64},
	};
	napi_typedarray_type type;
	void *data;

	if (napi_get_typedarray_info(env, array, &type, &values.length, &data, nullptr, nullptr) != napi_ok)
		return false;
	values.data = data;
	for (const auto &known : storages)
		if (known.type == type)
			values.storage = known.storage;
	return values.storage != none;
}

/* A part is an array of values, or undefined for a type that lacks the column. */
bool read_part(napi_env env, napi_value part, Values &values)
{
	if (type_of(env, part) == napi_undefined)
		return true;
	if (!read_values(env, property(env, part, "values"), values))
		return false;
	const napi_value unknown = property(env, part, "unknown");
	if (type_of(env, unknown) != napi_bigint)
		return true;
	bool lossless;
	values.has_unknown = true;
	return napi_get_value_bigint_uint64(env, unknown, &values.unknown, &lossless) == napi_ok;
}

bool read_parts(napi_env env, napi_value object, BatchColumn &column)
{
	const napi_value own = property(env, object, "own");
	if (type_of(env, own) == napi_undefined) {
		column.parts.resize(1);
		return read_part(env, object, column.parts[0]);
	}
	uint32_t count;
	if (napi_get_array_length(env, own, &count) != napi_ok || count > 256)
		return false;
	column.is_own = true;
	column.parts.resize(count);
	for (uint32_t type = 0; type < count; type++) {
		napi_value part;
		if (napi_get_element(env, own, type, &part) != napi_ok || !read_part(env, part, column.parts[type]))
			return false;
	}
	return true;
}

bool read_text(napi_env env, napi_value value, std::string &text)
{
	size_t size;
	if (napi_get_value_string_utf8(env, value, nullptr, 0, &size) != napi_ok)
		return false;
	text.resize(size);
	return napi_get_value_string_utf8(env, value, text.data(), size + 1, &size) == napi_ok;
}

bool read_column(napi_env env, napi_value object, BatchColumn &column)
{
	static const struct {
		const char *name;
		Form form;
	} forms[] = {
	    {"number", Form::number},     {"key", Form::key},           {"negative_key", Form::negative_key},
	    {"numbered", Form::numbered}, {"constant", Form::constant}, {"made", Form::made},
	};
	std::string form;
	if (!read_text(env, property(env, object, "form"), form))
		return false;
	for (const auto &known : forms)
		if (form == known.name)
			column.form = known.form;
	switch (column.form) {
	case Form::number:
	case Form::key:
	case Form::negative_key:
		return read_parts(env, object, column);
	case Form::numbered:
		return read_parts(env, object, column) && read_text(env, property(env, object, "text"), column.text);
	case Form::constant:
		column.is_null = type_of(env, property(env, object, "text")) == napi_null;
		return column.is_null || read_text(env, property(env, object, "text"), column.text);
	case Form::made: {
		const napi_value rows = property(env, object, "rows");
		bool is_array;
		return napi_is_array(env, rows, &is_array) == napi_ok && is_array &&
		       napi_create_reference(env, rows, 1, &column.made) == napi_ok;
	}
	default:
		return false;
	}
}

/* Numbers the rows of each type; returns false if one is beyond its type's columns. */
bool place_rows(Batch &batch)
{
	uint32_t next[256] = {};

	if (batch.types.storage != Values::Storage::u8 || batch.types.length < batch.row_count)
		return false;
	batch.places.resize(batch.row_count);
	for (size_t row = 0; row < batch.row_count; row++)
		batch.places[row] = next[batch.types.at(row)]++;
	for (const BatchColumn &column : batch.columns) {
		if (!column.is_own)
			continue;
		for (size_t type = 0; type < column.parts.size(); type++) {
			const Values &part = column.parts[type];
			if (part.storage != Values::Storage::none && part.length < next[type])
				return false;
		}
	}
	return true;
}

bool is_whole(const Batch &batch)
{
	for (const BatchColumn &column : batch.columns)
		if (!column.is_own && !column.parts.empty() && column.parts[0].length < batch.row_count)
			return false;
	return true;
}

/* SQLite's integers are signed: a larger one becomes a text. */
void result_number(sqlite3_context *context, const Values &values, uint64_t value)
{
	if (values.storage == Values::Storage::u64 && value > INT64_MAX) {
		char digits[21];
		const int size = snprintf(digits, sizeof(digits), "%" PRIu64, value);
		sqlite3_result_text(context, digits, size, SQLITE_TRANSIENT);
		return;
	}
	sqlite3_result_int64(context, static_cast<sqlite3_int64>(value));
}

void result_text(sqlite3_context *context, const std::string &text)
{
	sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

void result_numbered(sqlite3_context *context, const std::string &head, uint64_t number)
{
	static const char digits[] = "0123456789abcdef";
	char text[96];
	const size_t size = head.size() < sizeof(text) - 16 ? head.size() : sizeof(text) - 16;

	memcpy(text, head.data(), size);
	for (int digit = 0; digit < 16; digit++)
		text[size + digit] = digits[number >> (60 - 4 * digit) & 15];
	sqlite3_result_text(context, text, static_cast<int>(size) + 16, SQLITE_TRANSIENT);
}

bool read_made(napi_env env, napi_value value, sqlite3_context *context)
{
	bool lossless;
	int64_t integer;
	std::string text;

	switch (type_of(env, value)) {
	case napi_undefined:
	case napi_null:
		sqlite3_result_null(context);
		return true;
	case napi_bigint:
		if (napi_get_value_bigint_int64(env, value, &integer, &lossless) != napi_ok || !lossless)
			return is_malformed(env);
		sqlite3_result_int64(context, integer);
		return true;
	case napi_string:
		if (!read_text(env, value, text))
			return is_malformed(env);
		result_text(context, text);
		return true;
	default:
		return is_malformed(env);
	}
}

/* Calls make_text(table, column, type, key). */
bool text_of(napi_env env, napi_ref make_text, int table, int column, uint32_t type, const Values &values, uint64_t key,
	     TextCache::Text &made)
{
	Scope scope(env);
	napi_value undefined, function, arguments[4], result;

	napi_get_reference_value(env, make_text, &function);
	napi_get_undefined(env, &undefined);
	napi_create_int32(env, table, &arguments[0]);
	napi_create_int32(env, column, &arguments[1]);
	napi_create_uint32(env, type, &arguments[2]);
	if (values.storage == Values::Storage::i64)
		napi_create_bigint_int64(env, static_cast<int64_t>(key), &arguments[3]);
	else
		napi_create_double(env, static_cast<double>(key), &arguments[3]);
	if (napi_call_function(env, undefined, function, 4, arguments, &result) != napi_ok)
		return false;
	made.is_null = type_of(env, result) == napi_null;
	return made.is_null || read_text(env, result, made.text) || is_malformed(env);
}

} // namespace

uint64_t Values::at(size_t index) const
{
	switch (storage) {
	case Storage::u8:
		return static_cast<const uint8_t *>(data)[index];
	case Storage::u16:
		return static_cast<const uint16_t *>(data)[index];
	case Storage::u32:
		return static_cast<const uint32_t *>(data)[index];
	case Storage::i32:
		return static_cast<uint64_t>(static_cast<int64_t>(static_cast<const int32_t *>(data)[index]));
	case Storage::u64:
	case Storage::i64:
		return static_cast<const uint64_t *>(data)[index];
	default:
		return 0;
	}
}

void release_batch(napi_env env, Batch &batch)
{
	for (BatchColumn &column : batch.columns)
		if (column.made)
			napi_delete_reference(env, column.made);
	if (batch.object)
		napi_delete_reference(env, batch.object);
	batch = Batch();
}

bool read_batch(napi_env env, napi_value object, const std::vector<int> &used, size_t column_count, Batch &batch)
{
	release_batch(env, batch);
	const napi_value columns = property(env, object, "columns");
	uint32_t row_count;
	if (napi_get_value_uint32(env, property(env, object, "rowCount"), &row_count) != napi_ok ||
	    napi_create_reference(env, object, 1, &batch.object) != napi_ok)
		return is_malformed(env);
	batch.columns.resize(column_count);
	bool has_own = false;
	for (size_t i = 0; i < used.size(); i++) {
		napi_value column;
		BatchColumn &read = batch.columns[used[i]];
		if (napi_get_element(env, columns, static_cast<uint32_t>(i), &column) != napi_ok ||
		    !read_column(env, column, read)) {
			release_batch(env, batch);
			return is_malformed(env);
		}
		has_own |= read.is_own;
	}
	batch.row_count = row_count;
	const bool is_right =
	    is_whole(batch) && read_values(env, property(env, object, "numbers"), batch.numbers) &&
	    batch.numbers.length >= row_count &&
	    (!has_own || (read_values(env, property(env, object, "types"), batch.types) && place_rows(batch)));
	if (is_right)
		return true;
	release_batch(env, batch);
	return is_malformed(env);
}

bool result_of(napi_env env, const Batch &batch, TextCache &texts, napi_ref make_text, int place, size_t row,
	       sqlite3_context *context)
{
	const BatchColumn &column = batch.columns[place];
	if (column.form == Form::absent || (column.form == Form::constant && column.is_null)) {
		sqlite3_result_null(context);
		return true;
	}
	if (column.form == Form::constant) {
		result_text(context, column.text);
		return true;
	}
	if (column.form == Form::made) {
		Scope scope(env);
		napi_value rows, value;
		napi_get_reference_value(env, column.made, &rows);
		return napi_get_element(env, rows, static_cast<uint32_t>(row), &value) == napi_ok &&
		       read_made(env, value, context);
	}
	const uint32_t type = column.is_own ? static_cast<uint32_t>(batch.types.at(row)) : 0;
	if (type >= column.parts.size() || column.parts[type].storage == Values::Storage::none) {
		sqlite3_result_null(context);
		return true;
	}
	const Values &values = column.parts[type];
	const uint64_t value = values.at(column.is_own ? batch.places[row] : row);
	const bool is_null = (values.has_unknown && value == values.unknown) ||
			     (column.form == Form::negative_key && static_cast<int64_t>(value) >= 0);
	if (is_null)
		sqlite3_result_null(context);
	else if (column.form == Form::number)
		result_number(context, values, value);
	else if (column.form == Form::numbered)
		result_numbered(context, column.text, value);
	else {
		/* A key of an own column has at most 32 bits, which leaves room for the type. */
		const uint64_t slot = column.is_own ? value << 8 | type : value;
		auto &known = texts.columns[place];
		auto found = known.find(slot);
		if (found == known.end()) {
			TextCache::Text made;
			if (!text_of(env, make_text, texts.table, place, type, values, value, made))
				return false;
			if (++texts.count > kTextsMax) {
				for (auto &others : texts.columns)
					others.clear();
				texts.count = 1;
			}
			found = known.emplace(slot, std::move(made)).first;
		}
		if (found->second.is_null)
			sqlite3_result_null(context);
		else
			result_text(context, found->second.text);
	}
	return true;
}
