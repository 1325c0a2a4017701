#include "table_rows.h"

#include <algorithm>

namespace
{

constexpr size_t kFirstBytes = 64 * 1024;
/* Size of a FixedString, of which a fleet's tables have only this one. */
constexpr size_t kFixedBytes = 16;

size_t integer_width(std::string_view type)
{
	if (type == "UInt8")
		return 1;
	if (type == "UInt16")
		return 2;
	if (type == "UInt32")
		return 4;
	return type == "UInt64" ? 8 : 0;
}

void append(std::vector<uint8_t> &data, const void *value, size_t width)
{
	const uint8_t *from = static_cast<const uint8_t *>(value);
	data.insert(data.end(), from, from + width);
}

} // namespace

bool TableRows::set_kind(Column &column)
{
	constexpr std::string_view kList = "Array(";
	std::string_view type = column.head.type;
	const bool is_list = type.starts_with(kList) && type.ends_with(")");
	if (is_list)
		type = type.substr(kList.size(), type.size() - kList.size() - 1);
	column.width = integer_width(type);
	if (column.width > 0)
		column.kind = is_list ? Kind::integer_list : Kind::integer;
	else if (type == "String")
		column.kind = is_list ? Kind::text_list : Kind::text;
	else if (type == "LowCardinality(String)" && !is_list)
		column.kind = Kind::dictionary;
	else if (type == "FixedString(16)" && !is_list)
		column.kind = Kind::fixed;
	else
		return false;
	return true;
}

bool TableRows::set_columns(std::vector<ColumnHead> heads)
{
	columns.clear();
	for (ColumnHead &head : heads) {
		columns.push_back({std::move(head), Kind::integer, 0, {}, {}, {}});
		if (!set_kind(columns.back()))
			return false;
	}
	return !columns.empty();
}

std::vector<std::string_view> TableRows::types() const
{
	std::vector<std::string_view> found;
	for (const Column &column : columns)
		found.push_back(column.head.type);
	return found;
}

TableRows::Column &TableRows::next_column()
{
	Column &column = columns[next++];
	if (next == columns.size()) {
		next = 0;
		rows++;
	}
	return column;
}

TableRows &TableRows::number(uint64_t value)
{
	Column &column = next_column();
	append(column.data, &value, column.width);
	return *this;
}

TableRows &TableRows::text(uint32_t text)
{
	next_column().texts.push_back(text);
	return *this;
}

TableRows &TableRows::bytes(std::span<const uint8_t, kFixedBytes> value)
{
	append(next_column().data, value.data(), value.size());
	return *this;
}

TableRows &TableRows::numbers(std::span<const uint32_t> values)
{
	Column &column = next_column();
	for (const uint32_t value : values)
		append(column.data, &value, column.width);
	column.ends.push_back(column.data.size() / column.width);
	return *this;
}

TableRows &TableRows::texts(std::span<const uint32_t> texts)
{
	Column &column = next_column();
	column.texts.insert(column.texts.end(), texts.begin(), texts.end());
	column.ends.push_back(column.texts.size());
	return *this;
}

void TableRows::write_column(BlockWriter &to, const TextPool &pool, const Column &column)
{
	column.head.write(to);
	if (column.kind == Kind::dictionary)
		return dictionary.write(to, pool, column.texts);
	to.bytes(column.ends.data(), column.ends.size() * sizeof(uint64_t));
	to.bytes(column.data.data(), column.data.size());
	for (const uint32_t text : column.texts)
		to.text(pool, text);
}

void TableRows::write(BlockWriter &to, const TextPool &pool)
{
	to.varint(columns.size());
	to.varint(rows);
	for (const Column &column : columns)
		write_column(to, pool, column);
}

void TableRows::close(const TextPool &pool)
{
	if (rows == 0)
		return;
	for (;;) {
		BlockWriter to(written.data() + written_size, written.size() - written_size);
		write(to, pool);
		if (!to.is_full()) {
			written_size += to.size();
			break;
		}
		written.resize(std::max(kFirstBytes, written.size() * 2));
	}
	for (Column &column : columns) {
		column.data.clear();
		column.texts.clear();
		column.ends.clear();
	}
	rows = 0;
}

void TableRows::clear()
{
	for (Column &column : columns) {
		column.data.clear();
		column.texts.clear();
		column.ends.clear();
	}
	next = rows = written_size = 0;
}
