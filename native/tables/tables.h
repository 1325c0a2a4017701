#pragma once

#include <node_api.h>
#include <string>
#include <vector>

/*
 * Virtual tables whose rows JavaScript makes in batches of columns. SQLite passes on which columns a query uses and
 * which conditions it has on them; what a condition does not exclude, SQLite checks itself.
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
	/* The column by which rows are in order if it is asked for; -1 without one. */
	int order_column;
};

/* What the tables of one database have in common. */
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

/* JavaScript may be called no more: the environment ends. */
void end_environment();
