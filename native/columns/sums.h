#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

/*
 * Sums over groups of rows, in two steps. First, the values of a row in some columns, called codes, become the number
 * of its group. Then the row's duration and result are added to that group. The caller numbers the groups.
 */

/* Codes of rows in one column: bytes that are equal for equal values. */
struct Codes {
	const uint8_t *data;
	size_t width;
};

/* Maps the codes of groups to the numbers of these groups. */
class Groups
{
      public:
	explicit Groups(size_t width);
	/* The number of columns with codes. */
	size_t width() const
	{
		return columns;
	}
	/* Sets numbers[row] for rows from `from` on; returns the first row whose group is not known, or `to`. */
	size_t find(std::span<const Codes> codes, size_t from, size_t to, uint32_t *numbers) const;
	void add(std::span<const Codes> codes, size_t row, uint32_t number);

      private:
	struct Slot {
		uint32_t number;
		bool is_used;
	};
	size_t columns, used = 0;
	std::vector<Slot> slots;
	/* The codes of each slot, one after the other. */
	std::vector<uint64_t> keys;

	size_t slot_of(const uint64_t *key) const;
	void grow();
};

/*
 * Counts values in buckets that grow with the value; daemon/sums/histogram.ts documents them. A block is allocated when
 * it gets its first value.
 */
struct Histogram {
	static constexpr unsigned kBlockBits = 6;
	static constexpr size_t kSlots = 1 << kBlockBits;
	static constexpr size_t kBlocks = 64 - kBlockBits + 1;
	using Block = std::array<double, kSlots>;
	std::array<std::unique_ptr<Block>, kBlocks> blocks;

	struct Place {
		unsigned block, slot;
	};
	static Place place_of(uint64_t value)
	{
		const unsigned bits = static_cast<unsigned>(std::bit_width(value));
		const unsigned shift = bits > kBlockBits + 1 ? bits - kBlockBits - 1 : 0;
		const uint64_t top = value >> shift;
		return {shift + static_cast<unsigned>(top >> kBlockBits), static_cast<unsigned>(top & (kSlots - 1))};
	}
	void record(uint64_t value);
};

struct Cell {
	uint64_t count = 0, error_count = 0, max = 0;
	unsigned __int128 duration_sum = 0, result_sum = 0;
	Histogram durations;
};

/* The cell of each group that has rows. */
class GroupedSums
{
      public:
	/* Adds the rows [from, to), whose groups have these `numbers`; a negative result is an error. */
	void add(const uint32_t *numbers, size_t from, size_t to, const uint64_t *durations, const uint64_t *results);
	struct Group {
		uint32_t number;
		Cell cell;
	};
	/* Returns the groups in the order of their first rows. */
	const std::vector<Group> &all() const
	{
		return groups;
	}
	void clear();

      private:
	std::vector<Group> groups;
	/* 1 + the index in `groups` of each group, by its number; 0 for a group without rows. */
	std::vector<uint32_t> index_of;

	Cell &cell_of(uint32_t number);
};
