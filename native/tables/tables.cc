#include "tables.h"

#include "batch.h"
#include "plan.h"

#include <cstring>
#include <memory>

SQLITE_EXTENSION_INIT1

namespace
{

/* Number of columns with their own bit in SQLite's mask of used columns; all further ones share the last bit. */
constexpr int kMaskColumns = 63;

struct Thread {
	std::unique_ptr<Tables> offered;
	napi_ref failure = nullptr;
	bool has_ended = false;
};

thread_local Thread thread;

/* The client of one module. */
struct Module {
	std::shared_ptr<Tables> tables;
	int index;
};

struct TableInstance {
	sqlite3_vtab base;
	const Module *module;

	const Table &table() const
	{
		return module->tables->tables[module->index];
	}
};

struct Cursor {
	sqlite3_vtab_cursor base;
	const Module *module;
	/* The rows' object of JavaScript; null before the first query. */
	napi_ref rows;
	std::vector<int> used;
	std::vector<sqlite3_value *> parameters;
	Batch batch;
	TextCache texts;
	size_t row;
	bool is_done;
};

/* Keeps what JavaScript has thrown, for its caller to throw again; SQLite gets a message. */
int fail(sqlite3_vtab *table, napi_env env)
{
	napi_value error;
	if (thread.failure)
		napi_delete_reference(env, thread.failure);
	thread.failure = nullptr;
	if (napi_get_and_clear_last_exception(env, &error) == napi_ok)
		napi_create_reference(env, error, 1, &thread.failure);
	sqlite3_free(table->zErrMsg);
	table->zErrMsg = sqlite3_mprintf("the rows of a table could not be read");
	return SQLITE_ERROR;
}

napi_value value_of(napi_env env, sqlite3_value *given)
{
	napi_value value = nullptr;
	switch (sqlite3_value_type(given)) {
	case SQLITE_INTEGER:
		napi_create_bigint_int64(env, sqlite3_value_int64(given), &value);
		break;
	case SQLITE_FLOAT:
		napi_create_double(env, sqlite3_value_double(given), &value);
		break;
	case SQLITE_TEXT: {
		const auto *text = reinterpret_cast<const char *>(sqlite3_value_text(given));
		napi_create_string_utf8(env, text ? text : "", sqlite3_value_bytes(given), &value);
		break;
	}
	case SQLITE_NULL:
		napi_get_null(env, &value);
		break;
	default:
		/* A blob equals none of the values. */
		napi_get_undefined(env, &value);
	}
	return value;
}

napi_value values_in(napi_env env, sqlite3_value *list)
{
	napi_value values;
	uint32_t count = 0;
	napi_create_array(env, &values);
	sqlite3_value *value;
	for (int error = sqlite3_vtab_in_first(list, &value); error == SQLITE_OK && value;
	     error = sqlite3_vtab_in_next(list, &value))
		napi_set_element(env, values, count++, value_of(env, value));
	return values;
}

int connect(sqlite3 *database, void *client, int, const char *const *, sqlite3_vtab **made, char **)
{
	auto *instance = new TableInstance();
	instance->module = static_cast<const Module *>(client);
	std::string sql = "CREATE TABLE x(";
	for (const TableColumn &column : instance->table().columns) {
		if (sql.back() != '(')
			sql += ", ";
		sql += '"' + column.name + '"' + (column.is_parameter ? " HIDDEN" : "");
	}
	const int error = sqlite3_declare_vtab(database, (sql + ")").c_str());
	if (error != SQLITE_OK) {
		delete instance;
		return error;
	}
	*made = &instance->base;
	return SQLITE_OK;
}

int disconnect(sqlite3_vtab *table)
{
	delete reinterpret_cast<TableInstance *>(table);
	return SQLITE_OK;
}

int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	return plan_query(reinterpret_cast<TableInstance *>(base)->table(), info);
}

int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **made)
{
	auto *cursor = new Cursor();
	cursor->module = reinterpret_cast<TableInstance *>(base)->module;
	*made = &cursor->base;
	return SQLITE_OK;
}

void end_rows(Cursor &cursor)
{
	for (sqlite3_value *parameter : cursor.parameters)
		sqlite3_value_free(parameter);
	cursor.parameters.clear();
	if (thread.has_ended || !cursor.rows)
		return;
	const napi_env env = cursor.module->tables->env;
	Scope scope(env);
	napi_value rows, close, ignored;
	napi_get_reference_value(env, cursor.rows, &rows);
	if (napi_get_named_property(env, rows, "close", &close) == napi_ok &&
	    napi_call_function(env, rows, close, 0, nullptr, &ignored) != napi_ok)
		napi_get_and_clear_last_exception(env, &ignored);
	release_batch(env, cursor.batch);
	napi_delete_reference(env, cursor.rows);
	cursor.rows = nullptr;
}

int close_cursor(sqlite3_vtab_cursor *base)
{
	auto *cursor = reinterpret_cast<Cursor *>(base);
	end_rows(*cursor);
	delete cursor;
	return SQLITE_OK;
}

/* Gets batches until one has rows. */
int read_on(Cursor &cursor)
{
	const napi_env env = cursor.module->tables->env;
	const size_t column_count = cursor.module->tables->tables[cursor.module->index].columns.size();

	for (;;) {
		Scope scope(env);
		napi_value rows, next, object;
		napi_valuetype type;
		napi_get_reference_value(env, cursor.rows, &rows);
		if (napi_get_named_property(env, rows, "next", &next) != napi_ok ||
		    napi_call_function(env, rows, next, 0, nullptr, &object) != napi_ok ||
		    napi_typeof(env, object, &type) != napi_ok)
			return fail(cursor.base.pVtab, env);
		cursor.row = 0;
		if (type == napi_undefined) {
			release_batch(env, cursor.batch);
			cursor.is_done = true;
			return SQLITE_OK;
		}
		if (!read_batch(env, object, cursor.used, column_count, cursor.batch))
			return fail(cursor.base.pVtab, env);
		if (cursor.batch.row_count > 0)
			return SQLITE_OK;
	}
}

int column_named(const Table &table, const char *name, size_t size)
{
	for (size_t i = 0; i < table.columns.size(); i++)
		if (table.columns[i].name.compare(0, std::string::npos, name, size) == 0)
			return static_cast<int>(i);
	return -1;
}

/* One condition of the plan, as [column, operator, value]. */
napi_value condition_of(napi_env env, const Table &table, const char *text, size_t size, sqlite3_value *argument)
{
	napi_value condition, part;
	const char letter = text[size - 1];
	napi_create_array_with_length(env, 3, &condition);
	napi_create_int32(env, column_named(table, text, size - 1), &part);
	napi_set_element(env, condition, 0, part);
	napi_create_string_utf8(env, &letter, 1, &part);
	napi_set_element(env, condition, 1, part);
	napi_set_element(env, condition, 2, letter == 'i' ? values_in(env, argument) : value_of(env, argument));
	return condition;
}

/* Calls open(table, order, used, conditions). */
int filter(sqlite3_vtab_cursor *base, int, const char *plan, int count, sqlite3_value **arguments)
{
	auto &cursor = *reinterpret_cast<Cursor *>(base);
	const Module &module = *cursor.module;
	const Table &table = module.tables->tables[module.index];
	const napi_env env = module.tables->env;
	Scope scope(env);

	end_rows(cursor);
	cursor.used.clear();
	cursor.texts = {};
	cursor.texts.table = module.index;
	cursor.texts.columns.resize(table.columns.size());
	cursor.is_done = false;

	const char *end = strchr(plan, ' ');
	napi_value given[4];
	napi_create_int32(env, module.index, &given[0]);
	napi_create_string_utf8(env, plan, end - plan, &given[1]);
	char *rest;
	const uint64_t mask = strtoull(end, &rest, 16);
	napi_create_array(env, &given[2]);
	cursor.parameters.resize(table.columns.size());
	for (int i = 0; i < static_cast<int>(table.columns.size()); i++) {
		const uint64_t bit = 1ull << (i < kMaskColumns ? i : kMaskColumns);
		if (!(mask & bit) || table.columns[i].is_parameter)
			continue;
		napi_value column;
		napi_create_int32(env, i, &column);
		napi_set_element(env, given[2], static_cast<uint32_t>(cursor.used.size()), column);
		cursor.used.push_back(i);
	}
	napi_create_array(env, &given[3]);
	for (int i = 0; i < count; i++) {
		const char *text = rest + 1;
		const size_t size = strcspn(text, " ");
		const int column = column_named(table, text, size - 1);
		if (table.columns[column].is_parameter) {
			sqlite3_value_free(cursor.parameters[column]);
			cursor.parameters[column] = sqlite3_value_dup(arguments[i]);
		}
		napi_set_element(env, given[3], i, condition_of(env, table, text, size, arguments[i]));
		rest = const_cast<char *>(text) + size;
	}
	napi_value undefined, open, rows;
	napi_get_undefined(env, &undefined);
	napi_get_reference_value(env, module.tables->open, &open);
	if (napi_call_function(env, undefined, open, 4, given, &rows) != napi_ok ||
	    napi_create_reference(env, rows, 1, &cursor.rows) != napi_ok)
		return fail(base->pVtab, env);
	return read_on(cursor);
}

int next(sqlite3_vtab_cursor *base)
{
	auto &cursor = *reinterpret_cast<Cursor *>(base);
	return ++cursor.row < cursor.batch.row_count ? SQLITE_OK : read_on(cursor);
}

int is_at_end(sqlite3_vtab_cursor *base)
{
	return reinterpret_cast<Cursor *>(base)->is_done;
}

int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int place)
{
	auto &cursor = *reinterpret_cast<Cursor *>(base);
	const Tables &tables = *cursor.module->tables;
	if (sqlite3_value *parameter = cursor.parameters[place]) {
		sqlite3_result_value(context, parameter);
		return SQLITE_OK;
	}
	if (result_of(tables.env, cursor.batch, cursor.texts, tables.make_text, place, cursor.row, context))
		return SQLITE_OK;
	return fail(base->pVtab, tables.env);
}

int row_id(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
	const auto &cursor = *reinterpret_cast<Cursor *>(base);
	*id = static_cast<sqlite3_int64>(cursor.batch.numbers.at(cursor.row));
	return SQLITE_OK;
}

void end_tables(Tables *tables)
{
	if (!thread.has_ended) {
		napi_delete_reference(tables->env, tables->open);
		napi_delete_reference(tables->env, tables->make_text);
	}
	delete tables;
}

sqlite3_module table_module()
{
	sqlite3_module module = {};
	/* Without xCreate, each module is a table of its own name. */
	module.xConnect = connect;
	module.xBestIndex = best_index;
	module.xDisconnect = disconnect;
	module.xOpen = open_cursor;
	module.xClose = close_cursor;
	module.xFilter = filter;
	module.xNext = next;
	module.xEof = is_at_end;
	module.xColumn = column;
	module.xRowid = row_id;
	return module;
}

const sqlite3_module kModule = table_module();

} // namespace

void offer_tables(Tables *tables)
{
	thread.offered.reset(tables);
}

napi_value take_failure(napi_env env)
{
	napi_value error = nullptr;
	if (!thread.failure)
		return nullptr;
	napi_get_reference_value(env, thread.failure, &error);
	napi_delete_reference(env, thread.failure);
	thread.failure = nullptr;
	return error;
}

void end_environment()
{
	thread.has_ended = true;
}

extern "C" __attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *database, char **message,
									     const sqlite3_api_routines *api)
{
	SQLITE_EXTENSION_INIT2(api);
	if (!thread.offered) {
		*message = sqlite3_mprintf("no tables have been defined");
		return SQLITE_ERROR;
	}
	const std::shared_ptr<Tables> tables(thread.offered.release(), end_tables);
	for (size_t i = 0; i < tables->tables.size(); i++) {
		auto *module = new Module{tables, static_cast<int>(i)};
		const int error = sqlite3_create_module_v2(database, tables->tables[i].name.c_str(), &kModule, module,
							   [](void *client) { delete static_cast<Module *>(client); });
		if (error != SQLITE_OK)
			return error;
	}
	return SQLITE_OK;
}
