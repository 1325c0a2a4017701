#pragma once

#include "columns.h"

#include <cstring>

/* Calls `work` with the values as integers of their width. */
template <typename Work> auto as_words(const Values &values, Work work)
{
	switch (values.width) {
	case 1:
		return work(values.data);
	case 2:
		return work(reinterpret_cast<uint16_t *>(values.data));
	case 4:
		return work(reinterpret_cast<uint32_t *>(values.data));
	default:
		return work(reinterpret_cast<uint64_t *>(values.data));
	}
}

/* Reads an integer of 0, 1, 2, 4 or 8 bytes. A call of memcpy() with a variable size costs more than the switch. */
inline uint64_t load(const uint8_t *at, size_t width)
{
	const auto as = [at]<typename Word>(Word word) {
		std::memcpy(&word, at, sizeof(Word));
		return static_cast<uint64_t>(word);
	};
	switch (width) {
	case 0:
		return 0;
	case 1:
		return *at;
	case 2:
		return as(uint16_t());
	case 4:
		return as(uint32_t());
	default:
		return as(uint64_t());
	}
}
