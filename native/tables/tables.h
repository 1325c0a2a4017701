#pragma once

#include <node_api.h>
#include <string>
#include <vector>

/*
 * Virtual tables whose rows JavaScript makes in batches of columns. SQLite passes on the columns that a query uses and
 * its conditions on them, and checks each row again, so JavaScript may return rows that do not match. Parameters are
 * not checked again.
 */

struct TableColumn {
	std::string name;
	/* Takes `=` only, and is the next argument of the table as a function. */
	bool is_parameter;
	/* Letters of the operators that `open` may get: = > g (>=) < l (<=) and i (IN). */
	std::string operators;
};

struct Table {
	std::string name;
	std::vector<TableColumn> columns;
	/* The column by which rows are ordered if a query asks for it; -1 without one. */
	int order_column;
};

/* State that the tables of one database share. */
struct Tables {
	napi_env env;
	std::vector<Table> tables;
	/* Functions of JavaScript. */
	napi_ref open;
	napi_ref make_text;
};

/* The next database of this thread that loads the extension gets these tables. */
void offer_tables(Tables *tables);

/* Returns what JavaScript has thrown since the last call, or nullptr. */
napi_value take_failure(napi_env env);

/* Called when the environment ends: JavaScript must not be called afterwards. */
void end_environment();
