#pragma once

#include "tables.h"

#include <sqlite3ext.h>

/*
 * Decides which conditions and which order a query passes on to the source of its rows; returns an error of SQLite. The
 * plan is a text, which EXPLAIN QUERY PLAN shows: order, used columns in hexadecimal, then a column and an operator for
 * each argument.
 */
int plan_query(const Table &table, sqlite3_index_info *info);
