#pragma once

#include "references.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/* The columns of a recording. Some have a role, which is given by a place in `columns`. */
struct RecordedColumn {
	/* 0 if every row has a value; otherwise only rows of this type have one. */
	uint8_t event_type;
	uint8_t width;
	Refers refers;
};

struct OriginSlot {
	uint32_t event_type, context, service, bytes;
};

struct RecordedColumns {
	std::vector<RecordedColumn> columns;
	uint32_t event_type, timestamp, duration, result, context_source, context, service;
	std::vector<OriginSlot> origins;
	std::vector<uint32_t> devices;
	/* The value of context_source for data that was written back later. */
	uint8_t written_back;
	/* Text for the owner of an event that several services own. */
	uint32_t several_owners;
	/* Texts of the node and of each event type. */
	uint32_t node;
	std::array<uint32_t, 256> type_names;
	uint64_t recording;
};

/* One column's values as they lie in memory. */
struct RecordedValues {
	const uint8_t *data;
	size_t count;
	size_t width;
};

/* A segment's rows and the entries that they refer to. Memory is kept from one segment to the next. */
class SegmentRows
{
      public:
	explicit SegmentRows(const RecordedColumns &recorded) : recorded(recorded), places(recorded.columns.size())
	{
	}

	/* Returns false if a column does not fit the recording's columns. */
	bool open(std::span<const RecordedValues> values, const RecordedValues &row_numbers, size_t rows);
	/*
	 * Finds the places of all ids. Returns false if some are unknown: `missing` then has them, maybe several times.
	 */
	bool refer(const References &references);

	size_t rows = 0;
	std::array<std::vector<uint32_t>, static_cast<size_t>(Refers::count)> missing;

	const RecordedColumns &schema() const
	{
		return recorded;
	}
	const RecordedColumn &column(uint32_t column) const
	{
		return recorded.columns[column];
	}
	std::span<const uint8_t> bytes_of(uint32_t column) const
	{
		return {values[column].data, length_of(column) * values[column].width};
	}
	/* Values of a column of this type, whose width the schema says. */
	template <typename Word> const Word *words(uint32_t column) const
	{
		return reinterpret_cast<const Word *>(values[column].data);
	}
	/* The places of a column's ids: texts of names, or numbers of files or contexts. */
	std::span<const uint32_t> places_of(uint32_t column) const
	{
		return {places[column].data(), length_of(column)};
	}
	const uint64_t *numbers() const
	{
		return row_numbers;
	}
	std::span<const uint8_t> types() const
	{
		return type_of_row;
	}
	std::span<const uint32_t> rows_of(uint8_t event_type) const
	{
		return rows_of_type[event_type];
	}
	/* Text of each row's owner: the only service that owns the event or a part of it. */
	std::span<const uint32_t> owners() const
	{
		return owner_of_row;
	}
	size_t length_of(uint32_t column) const
	{
		const uint8_t type = recorded.columns[column].event_type;
		return type == 0 ? rows : rows_of_type[type].size();
	}

      private:
	RecordedColumns recorded;
	std::span<const RecordedValues> values;
	const uint64_t *row_numbers = nullptr;
	std::vector<uint8_t> type_of_row;
	std::array<std::vector<uint32_t>, 256> rows_of_type;
	std::vector<std::vector<uint32_t>> places;
	std::vector<uint32_t> owner_of_row;

	void find_owners();
};
