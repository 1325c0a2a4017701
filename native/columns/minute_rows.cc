#include "minute_rows.h"

namespace
{

constexpr uint64_t kMinuteNs = 60'000'000'000, kHourNs = 60 * kMinuteNs;

} // namespace

size_t MinuteRows::HashOfGroup::operator()(const Group &group) const
{
	constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
	uint64_t hash = group.minute * kMix;
	hash = (hash ^ (static_cast<uint64_t>(group.owner) << 32 | group.service)) * kMix;
	return (hash ^ group.type) * kMix >> 16;
}

void MinuteRows::record(Sums &into, uint64_t duration)
{
	const auto [block, slot] = Histogram::place_of(duration);
	uint32_t &number = into.block_of[block];
	if (number == 0) {
		blocks.push_back({});
		number = static_cast<uint32_t>(blocks.size());
	}
	blocks[number - 1][slot]++;
}

void MinuteRows::add(const SegmentRows &segment, uint64_t first_number, TableRows &stat)
{
	const RecordedColumns &schema = segment.schema();
	const uint64_t *timestamps = segment.words<uint64_t>(schema.timestamp);
	const uint64_t *durations = segment.words<uint64_t>(schema.duration);
	const uint64_t *results = segment.words<uint64_t>(schema.result);
	const std::span<const uint32_t> services = segment.places_of(schema.service);
	numbers.clear();
	sums.clear();
	blocks.clear();
	/* Most rows are in the same minute as the row before. */
	uint64_t minute = 0, from = 0, to = 0;
	for (size_t row = 0; row < segment.rows; row++) {
		if (timestamps[row] < from || timestamps[row] - from >= to - from) {
			minute = timestamps[row] / kMinuteNs;
			from = minute * kMinuteNs;
			to = from + kMinuteNs;
		}
		const Group group = {minute, segment.owners()[row], services[row], segment.types()[row]};
		const auto [known, is_new] = numbers.try_emplace(group, static_cast<uint32_t>(sums.size()));
		if (is_new)
			sums.push_back({group, 0, 0, 0, 0, 0, {}});
		Sums &of = sums[known->second];
		const bool is_error = results[row] >> 63 != 0;
		of.count++;
		of.error_count += is_error;
		of.result_sum += is_error ? 0 : results[row];
		of.duration_sum += durations[row];
		of.max = std::max(of.max, durations[row]);
		record(of, durations[row]);
	}
	for (const Sums &of : sums)
		add_row(segment, first_number, of, stat);
}

void MinuteRows::add_row(const SegmentRows &segment, uint64_t first_number, const Sums &of, TableRows &stat)
{
	const RecordedColumns &schema = segment.schema();
	slots.clear();
	counts.clear();
	for (uint32_t block = 0; block < of.block_of.size(); block++) {
		if (of.block_of[block] == 0)
			continue;
		for (uint32_t slot = 0; slot < Histogram::kSlots; slot++) {
			const uint32_t count = blocks[of.block_of[block] - 1][slot];
			if (count == 0)
				continue;
			slots.push_back(block * Histogram::kSlots + slot);
			counts.push_back(count);
		}
	}
	stat.number(of.group.minute)
	    .text(of.group.owner)
	    .text(of.group.service)
	    .text(schema.node)
	    .text(schema.type_names[of.group.type])
	    .number(schema.recording)
	    .number(first_number)
	    .number(of.count)
	    .number(of.error_count)
	    .number(static_cast<uint64_t>(of.result_sum))
	    .number(static_cast<uint64_t>(of.result_sum >> 64))
	    .number(static_cast<uint64_t>(of.duration_sum))
	    .number(static_cast<uint64_t>(of.duration_sum >> 64))
	    .number(of.max)
	    .numbers(slots)
	    .numbers(counts);
}

void NameRows::find(std::span<const uint32_t> names)
{
	uint32_t last = 0;
	for (const uint32_t name : names) {
		if (name == last)
			continue;
		last = name;
		if (name == 0 || is_found[name])
			continue;
		is_found[name] = true;
		found.push_back(name);
	}
}

void NameRows::add_found(uint64_t hour, uint32_t kind, const TextPool &pool, TableRows &name)
{
	for (const uint32_t text : found) {
		is_found[text] = false;
		std::string key = std::to_string(hour) + ' ' + std::to_string(kind) + ' ';
		key.append(pool.at(text));
		if (added.insert(std::move(key)).second)
			name.number(hour).text(kind).text(text);
	}
	found.clear();
}

void NameRows::add(const SegmentRows &segment, const TextPool &pool, TableRows &name)
{
	if (segment.rows == 0)
		return;
	const RecordedColumns &schema = segment.schema();
	if (is_found.size() < pool.size())
		is_found.resize(pool.size() * 2);
	const uint64_t hour = segment.words<uint64_t>(schema.timestamp)[0] / kHourNs;
	find(segment.places_of(schema.service));
	for (const OriginSlot &slot : schema.origins)
		find(segment.places_of(slot.service));
	add_found(hour, service_kind, pool, name);
	for (const uint32_t device : schema.devices)
		find(segment.places_of(device));
	add_found(hour, device_kind, pool, name);
}
