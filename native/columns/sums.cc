#include "sums.h"

#include "words.h"

#include <algorithm>
#include <cstring>

namespace
{

constexpr size_t kSlotsMin = 64;

uint64_t code_at(const Codes &codes, size_t row)
{
	return load(codes.data + row * codes.width, codes.width);
}

void read_key(std::span<const Codes> codes, size_t row, uint64_t *key)
{
	for (size_t i = 0; i < codes.size(); i++)
		key[i] = code_at(codes[i], row);
}

} // namespace

Groups::Groups(size_t width) : columns(width), slots(kSlotsMin), keys(kSlotsMin * width)
{
}

/* Returns the slot of the key, or the free one where it belongs. */
size_t Groups::slot_of(const uint64_t *key) const
{
	uint64_t hash = 0;
	for (size_t i = 0; i < columns; i++) {
		hash = (hash ^ key[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	size_t slot = hash & (slots.size() - 1);
	while (slots[slot].is_used && !std::equal(key, key + columns, keys.data() + slot * columns))
		slot = (slot + 1) & (slots.size() - 1);
	return slot;
}

size_t Groups::find(std::span<const Codes> codes, size_t from, size_t to, uint32_t *numbers) const
{
	/* Neighbouring rows are mostly of one group. */
	std::vector<uint64_t> key(columns), last(columns);
	std::optional<uint32_t> last_number;
	for (size_t row = from; row < to; row++) {
		read_key(codes, row, key.data());
		if (!last_number || key != last) {
			const Slot &slot = slots[slot_of(key.data())];
			if (!slot.is_used)
				return row;
			last_number = slot.number;
			std::swap(key, last);
		}
		numbers[row] = *last_number;
	}
	return to;
}

void Groups::add(std::span<const Codes> codes, size_t row, uint32_t number)
{
	std::vector<uint64_t> key(columns);
	read_key(codes, row, key.data());
	const size_t slot = slot_of(key.data());
	used += slots[slot].is_used ? 0 : 1;
	slots[slot] = {number, true};
	std::ranges::copy(key, keys.begin() + static_cast<ptrdiff_t>(slot * columns));
	if (used * 2 > slots.size())
		grow();
}

void Groups::grow()
{
	std::vector<Slot> smaller(slots.size() * 2);
	std::vector<uint64_t> smaller_keys(smaller.size() * columns);
	std::swap(slots, smaller);
	std::swap(keys, smaller_keys);
	for (size_t from = 0; from < smaller.size(); from++) {
		if (!smaller[from].is_used)
			continue;
		const uint64_t *key = smaller_keys.data() + from * columns;
		const size_t slot = slot_of(key);
		slots[slot] = smaller[from];
		std::copy(key, key + columns, keys.data() + slot * columns);
	}
}

void Histogram::record(uint64_t value)
{
	const auto [at, slot] = place_of(value);
	std::unique_ptr<Block> &block = blocks[at];
	if (!block)
		block = std::make_unique<Block>();
	(*block)[slot]++;
}

Cell &GroupedSums::cell_of(uint32_t number)
{
	if (number >= index_of.size())
		index_of.resize(std::max<size_t>(number + 1ul, index_of.size() * 2));
	if (index_of[number] == 0) {
		groups.push_back({number, {}});
		index_of[number] = static_cast<uint32_t>(groups.size());
	}
	return groups[index_of[number] - 1].cell;
}

void GroupedSums::add(const uint32_t *numbers, size_t from, size_t to, const uint64_t *durations,
		      const uint64_t *results)
{
	for (size_t row = from; row < to; row++) {
		Cell &cell = cell_of(numbers[row]);
		cell.count++;
		cell.duration_sum += durations[row];
		cell.max = std::max(cell.max, durations[row]);
		cell.durations.record(durations[row]);
		const bool is_error = results[row] >> 63 != 0;
		cell.error_count += is_error ? 1 : 0;
		cell.result_sum += is_error ? 0 : results[row];
	}
}

void GroupedSums::clear()
{
	for (const Group &group : groups)
		index_of[group.number] = 0;
	groups.clear();
}
