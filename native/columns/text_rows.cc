#include "text_rows.h"

#include "../base/text_writer.h"
#include "../base/time_writer.h"
#include "words.h"

#include <algorithm>
#include <cstring>

namespace
{

constexpr size_t kSlotsMin = 64;
constexpr size_t kTextBytesMax = 4 * 1024 * 1024;
constexpr size_t kTextsMax = 64 * 1024;
constexpr size_t kListColumns = 3;

uint64_t unsigned_at(const Column &column, size_t index)
{
	return load(column.data + index * column.width, column.width);
}

int64_t signed_at(const Column &column, size_t index)
{
	const unsigned unused = 64 - static_cast<unsigned>(column.width) * 8;
	return static_cast<int64_t>(unsigned_at(column, index) << unused) >> unused;
}

/* The last text of a table: neighbouring rows mostly have the same one. */
struct Recent {
	TextKey key;
	PaddedText text;
};

/* Writes one row after the other. */
struct RowWriter {
	const Texts &texts;
	std::span<const Column> columns;
	std::span<Recent> recent; /* by table */
	Writer writer;
	TextKey &missing;
	TimeWriter times = {};

	Stopped text(const TextKey &key)
	{
		Recent &last = recent[key.table];
		if (last.text.data == nullptr || !(last.key == key)) {
			const auto found = texts.find(key);
			if (!found) {
				missing = key;
				return Stopped::missing_text;
			}
			last = {key, *found};
		}
		return writer.put(last.text) ? Stopped::done : Stopped::full;
	}

	bool number(const Column &column, size_t index)
	{
		return column.is_signed ? writer.decimal(signed_at(column, index))
					: writer.decimal(unsigned_at(column, index));
	}

	bool time(const Column &column, size_t index)
	{
		return column.is_signed ? times.write(writer, signed_at(column, index))
					: times.write(writer, unsigned_at(column, index));
	}

	TextKey key_of(uint32_t table, std::span<const uint32_t> of, size_t index) const
	{
		TextKey key = {{0, 0}, table};
		if (of.size() == 1) {
			key.values[0] = unsigned_at(columns[of[0]], index);
			return key;
		}
		unsigned bits = 0;
		for (const uint32_t column : of) {
			const uint64_t value = unsigned_at(columns[column], index);
			const unsigned width = static_cast<unsigned>(columns[column].width) * 8;
			key.values[bits / 64] |= value << bits % 64;
			/* The rest of a value that begins in the first half. */
			if (bits % 64 + width > 64)
				key.values[1] |= value >> (64 - bits % 64);
			bits += width;
		}
		return key;
	}

	Stopped list(const Part &part, size_t index)
	{
		bool is_empty = true;
		for (size_t first = 0; first < part.columns.size(); first += kListColumns) {
			const TextKey key = key_of(part.table, std::span(part.columns).subspan(first, 2), index);
			const Column &bytes = columns[part.columns[first + 2]];
			if (key.values[0] == 0 && key.values[1] == 0 && unsigned_at(bytes, index) == 0)
				continue;
			if (!(is_empty ? writer.put(part.before.view()) : writer.put(",")))
				return Stopped::full;
			is_empty = false;
			if (const Stopped stopped = text(key); stopped != Stopped::done)
				return stopped;
			if (!number(bytes, index) || !writer.put("}"))
				return Stopped::full;
		}
		return writer.put(is_empty ? part.none.view() : part.after.view()) ? Stopped::done : Stopped::full;
	}

	Stopped write(const Part &part, size_t index)
	{
		if (part.op == Op::list)
			return list(part, index);
		if (part.unknown && unsigned_at(columns[part.columns[0]], index) == *part.unknown)
			return writer.put(part.none.view()) ? Stopped::done : Stopped::full;
		if (!writer.put(part.before.view()))
			return Stopped::full;
		switch (part.op) {
		case Op::number:
			return number(columns[part.columns[0]], index) ? Stopped::done : Stopped::full;
		case Op::hex:
			return writer.hex(unsigned_at(columns[part.columns[0]], index)) ? Stopped::done : Stopped::full;
		case Op::text:
			return text(key_of(part.table, part.columns, index));
		case Op::negative_text:
			if (signed_at(columns[part.columns[0]], index) >= 0)
				return text({{0, 0}, part.table});
			return text(key_of(part.table, part.columns, index));
		case Op::time:
			return time(columns[part.columns[0]], index) && writer.put(part.after.view()) ? Stopped::done
												      : Stopped::full;
		default:
			return Stopped::done;
		}
	}

	Stopped write(std::span<const Part> parts, size_t index)
	{
		for (const Part &part : parts) {
			if (const Stopped stopped = write(part, index); stopped != Stopped::done)
				return stopped;
		}
		return Stopped::done;
	}
};

/* The length of the shortest column that the parts read. */
size_t shortest(std::span<const Part> parts, std::span<const Column> columns)
{
	size_t length = SIZE_MAX;
	for (const Part &part : parts) {
		for (const uint32_t column : part.columns)
			length = std::min(length, columns[column].count);
	}
	return length;
}

bool is_valid(const Part &part, size_t columns)
{
	if (!std::ranges::all_of(part.columns, [columns](uint32_t column) { return column < columns; }))
		return false;
	if (part.unknown && part.op != Op::number)
		return false;
	switch (part.op) {
	case Op::literal:
		return part.columns.empty();
	case Op::number:
	case Op::hex:
	case Op::negative_text:
	case Op::time:
		return part.columns.size() == 1;
	case Op::list:
		return part.columns.size() % kListColumns == 0;
	default:
		return part.op == Op::text;
	}
}

/* Whether the values of each key's columns fit into a key. */
bool keys_fit(std::span<const Part> parts, std::span<const Column> columns)
{
	for (const Part &part : parts) {
		if (part.op != Op::text)
			continue;
		size_t bytes = 0;
		for (const uint32_t column : part.columns)
			bytes += columns[column].width;
		if (bytes > sizeof(TextKey::values))
			return false;
	}
	return true;
}

} // namespace

Texts::Texts()
{
	clear();
}

void Texts::clear()
{
	slots.assign(kSlotsMin, {});
	used = 0;
	bytes.assign(kPaddingBytes, 0);
}

/* Returns the slot of the key, or the free one where it belongs. */
size_t Texts::slot_of(const TextKey &key) const
{
	uint64_t hash = key.values[0] * 0x9e3779b97f4a7c15 + key.table;
	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93 + key.values[1];
	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
	size_t slot = (hash ^ hash >> 32) & (slots.size() - 1);
	while (slots[slot].is_used && !(slots[slot].key == key))
		slot = (slot + 1) & (slots.size() - 1);
	return slot;
}

std::optional<PaddedText> Texts::find(const TextKey &key) const
{
	const Slot &slot = slots[slot_of(key)];
	if (!slot.is_used)
		return std::nullopt;
	return PaddedText{bytes.data() + slot.start, slot.size};
}

void Texts::add(const TextKey &key, std::string_view text)
{
	Slot &slot = slots[slot_of(key)];
	used += slot.is_used ? 0 : 1;
	slot = {key, static_cast<uint32_t>(bytes.size() - kPaddingBytes), static_cast<uint32_t>(text.size()), true};
	bytes.insert(bytes.size() - kPaddingBytes, text);
	if (used * 2 > slots.size())
		grow();
}

void Texts::grow()
{
	std::vector<Slot> smaller(slots.size() * 2);
	std::swap(slots, smaller);
	for (const Slot &slot : smaller) {
		if (slot.is_used)
			slots[slot_of(slot.key)] = slot;
	}
}

void Texts::limit()
{
	if (bytes.size() > kTextBytesMax || used > kTextsMax)
		clear();
}

bool is_valid(const Layout &layout)
{
	const auto all_valid = [&](const std::vector<Part> &parts) {
		return std::ranges::all_of(parts, [&](const Part &part) { return is_valid(part, layout.columns); });
	};
	return layout.type_column < layout.columns && all_valid(layout.common) &&
	       std::ranges::all_of(layout.own, [&](const auto &parts) { return !parts || all_valid(*parts); });
}

Stopped write_rows(const Layout &layout, const Texts &texts, Rows &rows, Output &output, TextKey &missing)
{
	const Column &types = rows.columns[layout.type_column];
	std::array<size_t, 256> own_ends = {};
	for (size_t type = 0; type < own_ends.size(); type++) {
		const auto &parts = layout.own[type];
		if (parts && keys_fit(*parts, rows.columns))
			own_ends[type] = shortest(*parts, rows.columns);
	}
	if (!keys_fit(layout.common, rows.columns) || types.width != 1 ||
	    rows.to > std::min(types.count, shortest(layout.common, rows.columns)))
		return Stopped::wrong_columns;
	uint32_t *end = output.ends;
	char *start = reinterpret_cast<char *>(output.data);
	std::vector<Recent> recent(layout.tables);
	RowWriter row = {texts, rows.columns, recent, {start + output.offset, start + output.size}, missing};
	for (; rows.from < rows.to; rows.from++) {
		const uint8_t type = types.data[rows.from];
		const size_t own_row = rows.own_rows[rows.from];
		if (own_row >= own_ends[type])
			return Stopped::wrong_columns;
		if (const Stopped stopped = row.write(layout.common, rows.from); stopped != Stopped::done)
			return stopped;
		if (const Stopped stopped = row.write(*layout.own[type], own_row); stopped != Stopped::done)
			return stopped;
		if (!row.writer.put(rows.ending))
			return Stopped::full;
		output.offset = static_cast<size_t>(row.writer.at - start);
		if (end)
			*end++ = static_cast<uint32_t>(output.offset);
	}
	return Stopped::done;
}
