#pragma once

#include "columns.h"

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
