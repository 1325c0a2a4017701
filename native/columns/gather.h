#pragma once

#include "columns.h"

#include <span>

/* A field of every record, and where it goes: as many bytes as a value has, a wider field loses its high bytes. */
struct Field {
	size_t offset;
	Values values;
};

/*
 * Fills the fields' first `count` values from the records at `offsets`. False, and nothing is read, when one would not
 * be inside.
 */
bool gather_fields(const Bytes &records, const uint32_t *offsets, size_t count, std::span<const Field> fields);
