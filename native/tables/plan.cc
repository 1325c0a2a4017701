#include "plan.h"

SQLITE_EXTENSION_INIT3

namespace
{

constexpr sqlite3_int64 kRows = 1'000'000;
char letter_of(unsigned char op)
{
	switch (op) {
	case SQLITE_INDEX_CONSTRAINT_EQ:
		return '=';
	case SQLITE_INDEX_CONSTRAINT_GT:
		return '>';
	case SQLITE_INDEX_CONSTRAINT_GE:
		return 'g';
	case SQLITE_INDEX_CONSTRAINT_LT:
		return '<';
	case SQLITE_INDEX_CONSTRAINT_LE:
		return 'l';
	default:
		return 0;
	}
}

/* Returns the operator that a constraint is passed on with; 0 if SQLite has to check it alone. */
char passed_as(sqlite3_index_info *info, int index, const TableColumn &column)
{
	const auto &constraint = info->aConstraint[index];
	const char letter = letter_of(constraint.op);

	if (!letter || !constraint.usable || column.operators.find(letter) == std::string::npos)
		return 0;
	/* Another collation may take texts that differ in case for equal. */
	if (sqlite3_stricmp(sqlite3_vtab_collation(info, index), "BINARY") != 0)
		return 0;
	if (letter != '=' || !sqlite3_vtab_in(info, index, -1))
		return letter;
	if (column.operators.find('i') == std::string::npos)
		return 0;
	sqlite3_vtab_in(info, index, 1);
	return 'i';
}

const char *order_of(sqlite3_index_info *info, const Table &table)
{
	if (info->nOrderBy == 1 && info->aOrderBy[0].iColumn == table.order_column && table.order_column >= 0) {
		info->orderByConsumed = 1;
		return info->aOrderBy[0].desc ? "desc" : "asc";
	}
	/* SQLite sorts the rows itself, or the query cannot see their order. */
	return info->nOrderBy > 0 || info->colUsed == 0 ? "none" : "asc";
}

} // namespace

int plan_query(const Table &table, sqlite3_index_info *info)
{
	char *plan = sqlite3_mprintf("%s %llx", order_of(info, table), static_cast<sqlite3_uint64>(info->colUsed));
	double rows = kRows;
	int arguments = 0;

	for (int i = 0; i < info->nConstraint; i++) {
		const auto &constraint = info->aConstraint[i];
		if (constraint.iColumn < 0)
			continue;
		const TableColumn &column = table.columns[constraint.iColumn];
		const bool is_parameter = column.is_parameter && constraint.op == SQLITE_INDEX_CONSTRAINT_EQ;
		if (is_parameter && !constraint.usable) {
			sqlite3_free(plan);
			return SQLITE_CONSTRAINT;
		}
		const char letter = is_parameter ? '=' : passed_as(info, i, column);
		if (!letter)
			continue;
		info->aConstraintUsage[i].argvIndex = ++arguments;
		info->aConstraintUsage[i].omit = is_parameter;
		plan = sqlite3_mprintf("%z %s%c", plan, column.name.c_str(), letter);
		rows /= letter == '=' ? 100 : 4;
	}
	if (!plan)
		return SQLITE_NOMEM;
	info->idxStr = plan;
	info->needToFreeIdxStr = 1;
	info->estimatedCost = rows;
	info->estimatedRows = rows < 1 ? 1 : static_cast<sqlite3_int64>(rows);
	return SQLITE_OK;
}
