#pragma once

#include "segment_rows.h"
#include "sums.h"
#include "table_rows.h"

#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

/* Makes the rows of the table `stat`: sums of a segment by minute, owner, service and event type. */
class MinuteRows
{
      public:
	void add(const SegmentRows &segment, uint64_t first_number, TableRows &stat);

      private:
	struct Group {
		uint64_t minute;
		uint32_t owner, service;
		uint8_t type;
		bool operator==(const Group &) const = default;
	};
	struct HashOfGroup {
		size_t operator()(const Group &group) const;
	};
	struct Sums {
		Group group;
		uint64_t count, error_count, max;
		unsigned __int128 duration_sum, result_sum;
		/* 1 + the index in `blocks` of each block of the histogram; 0 for a block without counts. */
		std::array<uint32_t, Histogram::kBlocks> block_of;
	};
	std::unordered_map<Group, uint32_t, HashOfGroup> numbers;
	std::vector<Sums> sums;
	std::vector<std::array<uint32_t, Histogram::kSlots>> blocks;
	std::vector<uint32_t> slots, counts;

	void record(Sums &into, uint64_t duration);
	void add_row(const SegmentRows &segment, uint64_t first_number, const Sums &of, TableRows &stat);
};

/* Makes the rows of the table `name`: the services and devices of segments, for each hour in which they occur. */
class NameRows
{
      public:
	/* Numbers of the texts of the two kinds. */
	uint32_t service_kind = 0, device_kind = 0;

	/* A service is listed in the hour of the segment's first event: a list of services has no times. */
	void add(const SegmentRows &segment, const TextPool &pool, TableRows &name);
	/* Forgets which rows were added, because another group begins. */
	void clear()
	{
		added.clear();
	}

      private:
	std::unordered_set<std::string> added;
	/* Whether a text is in `found`; all are false between calls. */
	std::vector<bool> is_found;
	std::vector<uint32_t> found;

	void find(std::span<const uint32_t> names);
	void add_found(uint64_t hour, uint32_t kind, const TextPool &pool, TableRows &name);
};
