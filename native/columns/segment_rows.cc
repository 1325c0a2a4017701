#include "segment_rows.h"

#include <algorithm>

namespace
{

void find_places(const IdMap &map, std::span<const uint32_t> ids, uint32_t *places, std::vector<uint32_t> &missing)
{
	/* Neighbours mostly have the same id. */
	uint32_t last = 0, place = 0;
	for (size_t i = 0; i < ids.size(); i++) {
		if (ids[i] != last) {
			last = ids[i];
			place = map.find(last);
			if (place == IdMap::kUnknown) {
				missing.push_back(last);
				place = 0;
			}
		}
		places[i] = place;
	}
}

} // namespace

bool SegmentRows::open(std::span<const RecordedValues> given, const RecordedValues &given_numbers, size_t count)
{
	const RecordedValues &types = given[recorded.event_type];
	if (types.width != 1 || types.count < count || given_numbers.width != 8 || given_numbers.count < count)
		return false;
	rows = count;
	values = given;
	row_numbers = reinterpret_cast<const uint64_t *>(given_numbers.data);
	type_of_row.assign(types.data, types.data + count);
	for (std::vector<uint32_t> &of_type : rows_of_type)
		of_type.clear();
	for (size_t row = 0; row < count; row++)
		rows_of_type[type_of_row[row]].push_back(static_cast<uint32_t>(row));
	for (uint32_t i = 0; i < given.size(); i++) {
		if (given[i].width != recorded.columns[i].width || given[i].count < length_of(i))
			return false;
	}
	return true;
}

bool SegmentRows::refer(const References &references)
{
	for (std::vector<uint32_t> &ids : missing)
		ids.clear();
	for (uint32_t i = 0; i < values.size(); i++) {
		const Refers refers = recorded.columns[i].refers;
		if (refers == Refers::nothing)
			continue;
		const size_t length = length_of(i);
		if (places[i].size() < length)
			places[i].resize(length);
		find_places(references.map_of(refers), {words<uint32_t>(i), length}, places[i].data(),
			    missing[static_cast<size_t>(refers)]);
	}
	find_owners();
	return std::ranges::all_of(missing, [](const auto &ids) { return ids.empty(); });
}

void SegmentRows::find_owners()
{
	const std::span<const uint32_t> own = places_of(recorded.service);
	owner_of_row.assign(own.begin(), own.end());
	for (const OriginSlot &origin : recorded.origins) {
		const std::span<const uint32_t> rows_of = rows_of_type[origin.event_type];
		const std::span<const uint32_t> services = places_of(origin.service);
		for (size_t i = 0; i < rows_of.size(); i++) {
			uint32_t &owner = owner_of_row[rows_of[i]];
			if (services[i] == 0 || owner == services[i])
				continue;
			owner = owner == 0 ? services[i] : recorded.several_owners;
		}
	}
}
