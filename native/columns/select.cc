#include "select.h"

#include "words.h"

#include <algorithm>
#include <vector>

namespace
{

/* An insertion sort is given up after this many moves for each row. */
constexpr size_t kMovesMax = 32;

template <typename Word, typename Keep> size_t keep(const Word *values, uint32_t *rows, size_t count, Keep is_kept)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const uint32_t row = rows[i];
		rows[kept] = row;
		kept += is_kept(values[row]) ? 1 : 0;
	}
	return kept;
}

/* Whether a value is in a sorted list; neighbouring rows mostly have the same one. */
struct Member {
	std::span<const uint32_t> sorted;
	uint64_t last = 0;
	bool is_last_in = has(0);

	bool has(uint64_t value) const
	{
		return value <= UINT32_MAX && std::ranges::binary_search(sorted, static_cast<uint32_t>(value));
	}

	bool operator()(uint64_t value)
	{
		if (value != last) {
			last = value;
			is_last_in = has(value);
		}
		return is_last_in;
	}
};

struct Place {
	uint64_t time;
	uint32_t row;
	auto operator<=>(const Place &) const = default;
};

/* Few events end long after their neighbours. Returns false, with all places still there, when many do. */
bool sort_nearly_sorted(std::vector<Place> &places)
{
	size_t left = places.size() * kMovesMax;
	for (size_t i = 1; i < places.size(); i++) {
		const Place place = places[i];
		size_t to = i;
		for (; to > 0 && place < places[to - 1]; to--)
			places[to] = places[to - 1];
		places[to] = place;
		if (i - to > left)
			return false;
		left -= i - to;
	}
	return true;
}

} // namespace

size_t keep_within(const Values &values, uint64_t min, uint64_t max, uint32_t *rows, size_t count)
{
	return as_words(values, [&](const auto *words) {
		/* One comparison: smaller values wrap around. */
		return keep(words, rows, count, [&](uint64_t value) { return value - min <= max - min; });
	});
}

size_t keep_one_of(const Values &values, std::span<const uint32_t> sorted, uint32_t *rows, size_t count)
{
	if (sorted.size() == 1)
		return keep_within(values, sorted[0], sorted[0], rows, count);
	return as_words(values, [&](const auto *words) { return keep(words, rows, count, Member{sorted}); });
}

void mark_one_of(const Values &values, std::span<const uint32_t> sorted, const uint32_t *rows, uint8_t *marks)
{
	as_words(values, [&](const auto *words) {
		Member is_wanted{sorted};
		for (size_t i = 0; i < values.count; i++) {
			if (is_wanted(words[i]))
				marks[rows ? rows[i] : i] = 1;
		}
	});
}

void place_rows(std::span<const uint8_t> types, uint32_t *counts, uint32_t *places)
{
	if (!places) {
		for (const uint8_t type : types)
			counts[type]++;
		return;
	}
	for (size_t row = 0; row < types.size(); row++)
		places[row] = counts[types[row]]++;
}

size_t rows_of_type(std::span<const uint8_t> types, uint8_t type, uint32_t *rows, size_t most)
{
	size_t found = 0;
	for (size_t row = 0; row < types.size(); row++) {
		if (types[row] != type)
			continue;
		if (found < most)
			rows[found] = static_cast<uint32_t>(row);
		found++;
	}
	return found;
}

void sort_rows(const uint64_t *times, uint32_t *rows, size_t count, bool descending, uint64_t *sorted)
{
	/* The buffer is kept between calls. */
	static thread_local std::vector<Place> places;
	places.resize(count);
	for (size_t i = 0; i < count; i++)
		places[i] = {times[rows[i]], rows[i]};
	if (!sort_nearly_sorted(places))
		std::ranges::sort(places);
	if (descending)
		std::ranges::reverse(places);
	for (size_t i = 0; i < count; i++) {
		rows[i] = places[i].row;
		sorted[i] = places[i].time;
	}
}

void scatter(const Values &source, const uint32_t *from, const Values &target, const uint32_t *to, size_t count)
{
	as_words(source, [&]<typename Word>(const Word *words) {
		Word *output = reinterpret_cast<Word *>(target.data);
		for (size_t i = 0; i < count; i++)
			output[to[i]] = words[from[i]];
	});
}
