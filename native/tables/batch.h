#pragma once

#include <cstdint>
#include <node_api.h>
#include <sqlite3ext.h>
#include <string>
#include <unordered_map>
#include <vector>

/*
 * Rows of a virtual table as columns, which JavaScript makes: daemon/export/sql/native_tables.ts declares the objects.
 * A batch keeps its object alive, and with it the memory of the arrays.
 */

/* A scope for values of JavaScript, which may be collected when the scope ends. */
class Scope
{
      public:
	explicit Scope(napi_env env) : env_(env)
	{
		napi_open_handle_scope(env, &scope_);
	}
	~Scope()
	{
		napi_close_handle_scope(env_, scope_);
	}
	Scope(const Scope &) = delete;
	Scope &operator=(const Scope &) = delete;

      private:
	napi_env env_;
	napi_handle_scope scope_;
};

/*
 * The values of a typed array. SQLite has no unsigned 64-bit integers, so `storage` tells which values may exceed
 * SQLite's.
 */
struct Values {
	enum class Storage { none, u8, u16, u32, i32, u64, i64 };

	Storage storage = Storage::none;
	const void *data = nullptr;
	size_t length = 0;
	/* Whether values that equal `unknown` are NULL. */
	bool has_unknown = false;
	uint64_t unknown = 0;

	/* The value's 64 bits, sign-extended. */
	uint64_t at(size_t index) const;
};

enum class Form {
	/* The table leaves the column out of this batch. */
	absent,
	number,
	/* A key of a text, which JavaScript is asked for once. */
	key,
	/* Like `key`, but NULL unless the key is negative. */
	negative_key,
	/* The digits of a number, after a constant text. */
	numbered,
	constant,
	/* Values that JavaScript has made for each row. */
	made,
};

struct BatchColumn {
	Form form = Form::absent;
	/* One array for each event type if `is_own`, else one array. */
	std::vector<Values> parts;
	bool is_own = false;
	std::string text;
	bool is_null = false;
	napi_ref made = nullptr;
};

struct Batch {
	size_t row_count = 0;
	std::vector<BatchColumn> columns;
	/* Ids of the rows, by which SQLite recognises a row that two conditions joined by OR find. */
	Values numbers;
	/* The event type of each row, and the row's index in its type's own columns. */
	Values types;
	std::vector<uint32_t> places;
	napi_ref object = nullptr;
};

/* Texts by key: they stay when the batch changes. */
struct TextCache {
	struct Text {
		bool is_null;
		std::string text;
	};
	/* Index of the table, by which JavaScript makes the texts. */
	int table = 0;
	/* One map for each column. */
	std::vector<std::unordered_map<uint64_t, Text>> columns;
	size_t count = 0;
};

/* Reads `object`, whose columns belong to these places; returns false with a pending exception if it is malformed. */
bool read_batch(napi_env env, napi_value object, const std::vector<int> &used, size_t column_count, Batch &batch);

/* Drops what the batch keeps alive. */
void release_batch(napi_env env, Batch &batch);

/* Returns false with a pending exception. `make_text` is the function that returns the text of a key. */
bool result_of(napi_env env, const Batch &batch, TextCache &texts, napi_ref make_text, int column, size_t row,
	       sqlite3_context *context);
