#pragma once

#include "columns.h"

#include <span>

/*
 * A field of every record, and the column to fill from it. The column's width is copied: a wider field loses its high
 * bytes.
 */
struct Field {
	size_t offset;
	Values values;
};

/*
 * Fills the fields' first `count` values from the records at `offsets`. Returns false, and reads nothing, if a field
 * would lie outside of `records`.
 */
bool gather_fields(std::span<const uint8_t> records, const uint32_t *offsets, size_t count,
		   std::span<const Field> fields);
