#pragma once

#include "../base/text_writer.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/*
 * Writes rows of columns as text, such as JSON. A layout lists the parts of a row; it is made once. Text that many rows
 * share, like names, is made by the caller and kept here by the values that it stands for.
 *
 *   {"event_id":"<hex>","event_type":"sys_write","duration_ns":<number>,"service_name":"shop",...}
 *   [ text ]    [hex]  [ text                 ] [ number             ] [ text                 ]
 */

/* Values of one column, as the typed array has them. */
struct Column {
	const uint8_t *data;
	size_t count;
	size_t width;
	bool is_signed;
};

/* A text with its padding. */
class PaddedString
{
      public:
	void assign(std::string_view text)
	{
		bytes.assign(text);
		size = text.size();
		bytes.append(kPaddingBytes, 0);
	}
	PaddedText view() const
	{
		return {bytes.data(), size};
	}

      private:
	std::string bytes = std::string(kPaddingBytes, 0);
	size_t size = 0;
};

enum class Op : uint8_t {
	literal,
	/* The first column's value in decimal; where it is `unknown`, the part is `none`. */
	number,
	/* 16 digits. */
	hex,
	/* The text kept for the values of the columns. */
	text,
	/* Like `text`, for the first column's value; all values that are not negative share the text for 0. */
	negative_text,
	/*
	 * Elements of three columns each, with commas between: the text kept for the first two, a number and `}`.
	 * Elements of zeros are left out; without any, the part is `none`.
	 */
	list,
	/* The first column's nanoseconds since the epoch as RFC 3339, followed by `after`. */
	time,
	count
};

struct Part {
	Op op;
	/* Text before the part's value, and text after a time or the elements of a list. */
	PaddedString before, after;
	/* Text for a row in which the part has nothing to write. */
	PaddedString none;
	std::vector<uint32_t> columns;
	/* Distinguishes the texts of this part from those of others. */
	uint32_t table;
	std::optional<uint64_t> unknown;
};

struct Layout {
	/* Number of columns that the parts choose from. */
	size_t columns;
	/* Exclusive upper bound of the parts' tables. */
	size_t tables;
	/* The column with the types of the rows. */
	uint32_t type_column;
	std::vector<Part> common;
	/* Parts of each event type, which read the type's own columns; absent for an unknown type. */
	std::array<std::optional<std::vector<Part>>, 256> own;
};

/* The values that a text stands for, one after the other, in the widths of their columns. */
struct TextKey {
	std::array<uint64_t, 2> values;
	uint32_t table;
	/* The default operator would call memcmp(). */
	bool operator==(const TextKey &other) const
	{
		return values[0] == other.values[0] && values[1] == other.values[1] && table == other.table;
	}
};

/* Keeps texts by their keys. */
class Texts
{
      public:
	Texts();
	std::optional<PaddedText> find(const TextKey &key) const;
	void add(const TextKey &key, std::string_view text);
	/* Forgets all texts if they take too much memory. */
	void limit();

      private:
	struct Slot {
		TextKey key;
		uint32_t start, size;
		bool is_used;
	};
	std::vector<Slot> slots;
	size_t used;
	/* The texts, and a padding after the last one. */
	std::string bytes;

	size_t slot_of(const TextKey &key) const;
	void clear();
	void grow();
};

struct Rows {
	std::span<const Column> columns;
	/* The index of each row in its type's own columns. */
	const uint32_t *own_rows;
	size_t from, to;
	/* Text after each row. */
	std::string_view ending;
};

struct Output {
	uint8_t *data;
	size_t offset, size;
	/* If not null, the offset of the end of each row that was written, starting with that of the row `from`. */
	uint32_t *ends;
};

enum class Stopped {
	/* All rows were written. */
	done,
	/* The next row does not fit. */
	full,
	/* The text of a key is not known. */
	missing_text,
	/* A column is too short, or an event type unknown. */
	wrong_columns
};

/* Writes whole rows; advances rows.from and output.offset past them. Sets `missing` when a text is not known. */
Stopped write_rows(const Layout &layout, const Texts &texts, Rows &rows, Output &output, TextKey &missing);

/* Whether each part has as many columns as its operation needs, all of them below layout.columns. */
bool is_valid(const Layout &layout);
