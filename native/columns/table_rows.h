#pragma once

#include "block_writer.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/* Rows of a table, collected value by value in the order of its columns, and written as one block. */
class TableRows
{
      public:
	/* Returns false if a column has a type that this class does not write. */
	bool set_columns(std::vector<ColumnHead> heads);
	std::vector<std::string_view> types() const;

	/* Add the next value of a row; integers are cut to the size of the column. */
	TableRows &number(uint64_t value);
	TableRows &text(uint32_t text);
	TableRows &bytes(std::span<const uint8_t, 16> value);
	TableRows &numbers(std::span<const uint32_t> values);
	TableRows &texts(std::span<const uint32_t> texts);

	/* Appends the rows to `blocks` as one block, and starts again with no rows. */
	void close(const TextPool &pool);
	void clear();
	/* All blocks since `clear`. */
	std::span<const uint8_t> blocks() const
	{
		return {written.data(), written_size};
	}

      private:
	enum class Kind : uint8_t { integer, text, dictionary, fixed, text_list, integer_list };
	struct Column {
		ColumnHead head;
		Kind kind;
		/* The size of an integer. */
		size_t width;
		std::vector<uint8_t> data;
		std::vector<uint32_t> texts;
		std::vector<uint64_t> ends;
	};
	std::vector<Column> columns;
	size_t next = 0, rows = 0;
	DictionaryWriter dictionary;
	std::vector<uint8_t> written;
	size_t written_size = 0;

	static bool set_kind(Column &column);
	Column &next_column();
	void write(BlockWriter &to, const TextPool &pool);
	void write_column(BlockWriter &to, const TextPool &pool, const Column &column);
};
