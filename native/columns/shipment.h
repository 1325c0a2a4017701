#pragma once

#include "event_block.h"
#include "minute_rows.h"
#include "owner_rows.h"
#include "references.h"
#include "segment_rows.h"
#include "table_rows.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

/* Tables other than `event` that are filled from events. */
enum class BesideEvents : uint8_t { by_id, transaction, stat, name, count };

enum class Added {
	yes,
	/* Some ids are unknown: `segment.missing` has them. */
	missing,
	/* The block needs more memory. */
	no_room,
	/* A column does not fit the recording's columns. */
	wrong_columns
};

/* Makes the blocks of all tables that the segments of a recording fill. */
struct Shipment {
	Shipment(const RecordedColumns &recorded, References known) : references(std::move(known)), segment(recorded)
	{
	}

	References references;
	SegmentRows segment;
	std::vector<EventColumn> event_columns;
	std::array<TableRows, static_cast<size_t>(BesideEvents::count)> tables;
	NameRows names;

	TableRows &table(BesideEvents which)
	{
		return tables[static_cast<size_t>(which)];
	}
	/* Forgets the rows made so far, because a group begins. */
	void begin();
	/*
	 * Writes the block of the table `event`, and keeps the rows of the other tables. Keeps nothing unless it
	 * returns `yes`.
	 */
	Added add(std::span<const RecordedValues> values, const RecordedValues &numbers, size_t rows,
		  std::span<const EventColumn *const> columns, uint64_t first_number, BlockWriter &to);

      private:
	EventBlocks events;
	OwnerRows owners;
	MinuteRows minutes;
};

/* Whether columns have the roles, types and sizes that this code relies on. */
bool is_valid(const RecordedColumns &recorded);
bool is_valid(const EventColumn &column, const RecordedColumns &recorded);
/* Whether the tables have the columns that rows are made for. */
bool has_known_tables(const Shipment &shipment);
