#include "shipment.h"

#include <algorithm>
#include <string_view>

namespace
{

using Types = std::vector<std::string_view>;

constexpr std::string_view kWord = "LowCardinality(String)", kText = "String", kTexts = "Array(String)";
constexpr std::string_view kU8 = "UInt8", kU32 = "UInt32", kU64 = "UInt64", kTrace = "FixedString(16)";

/* Types of each table, in the order in which its rows are made. */
Types types_of(BesideEvents table)
{
	const Types summary = {kWord, kTexts, kU64, kU64, kU64, kU64,   kU64, kU64,
			       kU64,  kU64,   kU64, kU64, kU64, kTrace, kU64};
	Types types;
	switch (table) {
	case BesideEvents::by_id:
		types = {kU8, kText, kU32, kU64, kU64, kTexts};
		break;
	case BesideEvents::transaction:
		types = {kWord, kText, kU64, kU64, kU64};
		break;
	case BesideEvents::stat:
		return {kU32, kWord, kWord, kWord, kWord,           kU64,           kU64, kU64, kU64, kU64,
			kU64, kU64,  kU64,  kU64,  "Array(UInt16)", "Array(UInt32)"};
	default:
		return {kU32, kWord, kText};
	}
	types.insert(types.end(), summary.begin(), summary.end());
	return types;
}

} // namespace

void Shipment::begin()
{
	for (TableRows &one : tables)
		one.clear();
	names.clear();
}

Added Shipment::add(std::span<const RecordedValues> values, const RecordedValues &numbers, size_t rows,
		    std::span<const EventColumn *const> columns, uint64_t first_number, BlockWriter &to)
{
	if (!segment.open(values, numbers, rows))
		return Added::wrong_columns;
	if (!segment.refer(references))
		return Added::missing;
	if (!events.write(to, segment, references, columns))
		return Added::no_room;
	owners.add(segment, references, first_number, table(BesideEvents::by_id), table(BesideEvents::transaction));
	minutes.add(segment, first_number, table(BesideEvents::stat));
	names.add(segment, references.texts, table(BesideEvents::name));
	for (TableRows &one : tables)
		one.close(references.texts);
	/*
	 * Memory is limited only after a segment is added: between two tries, the entries that it needs may exceed the
	 * limit.
	 */
	references.limit();
	return Added::yes;
}

bool is_valid(const RecordedColumns &recorded)
{
	const auto is = [&](uint32_t column, uint32_t event_type, uint8_t width, Refers refers) {
		if (column >= recorded.columns.size())
			return false;
		const RecordedColumn &own = recorded.columns[column];
		return own.event_type == event_type && own.width == width && own.refers == refers;
	};
	const bool has_roles =
	    is(recorded.event_type, 0, 1, Refers::nothing) && is(recorded.timestamp, 0, 8, Refers::nothing) &&
	    is(recorded.duration, 0, 8, Refers::nothing) && is(recorded.result, 0, 8, Refers::nothing) &&
	    is(recorded.context_source, 0, 1, Refers::nothing) && is(recorded.context, 0, 4, Refers::context) &&
	    is(recorded.service, 0, 4, Refers::name);
	const bool has_origins = std::ranges::all_of(recorded.origins, [&](const OriginSlot &slot) {
		const uint32_t type = slot.event_type;
		return type != 0 && type < 256 && is(slot.context, type, 4, Refers::context) &&
		       is(slot.service, type, 4, Refers::name) && is(slot.bytes, type, 8, Refers::nothing);
	});
	const bool has_devices = std::ranges::all_of(recorded.devices, [&](uint32_t column) {
		return column < recorded.columns.size() && recorded.columns[column].refers == Refers::name;
	});
	const bool has_sizes = std::ranges::all_of(recorded.columns, [](const RecordedColumn &column) {
		return column.width > 0 && (column.refers == Refers::nothing || column.width == 4);
	});
	return has_roles && has_origins && has_devices && has_sizes;
}

bool is_valid(const EventColumn &column, const RecordedColumns &recorded)
{
	if (column.column >= recorded.columns.size())
		return false;
	switch (column.part) {
	case EventPart::name:
		return recorded.columns[column.column].refers == Refers::name;
	case EventPart::path:
	case EventPart::file_kind:
		return recorded.columns[column.column].refers == Refers::file;
	default:
		return true;
	}
}

bool has_known_tables(const Shipment &shipment)
{
	for (size_t i = 0; i < shipment.tables.size(); i++) {
		if (shipment.tables[i].types() != types_of(static_cast<BesideEvents>(i)))
			return false;
	}
	return true;
}
