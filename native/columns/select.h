#pragma once

#include "columns.h"

#include <cstdint>
#include <span>

/*
 * Selects rows by the values of a column. `rows` are ascending; the rows that are kept move to its front, and their
 * number is returned. The caller checks that all rows are within the column.
 */

/* Keeps rows whose value, as an unsigned integer, is in [min, max]. */
size_t keep_within(const Values &values, uint64_t min, uint64_t max, uint32_t *rows, size_t count);

/* Keeps rows whose value is one of `sorted`. */
size_t keep_one_of(const Values &values, std::span<const uint32_t> sorted, uint32_t *rows, size_t count);

/*
 * Sets marks[i] for each value that is one of `sorted`; with `rows`, marks[rows[i]]. The caller checks that each of
 * these marks exists.
 */
void mark_one_of(const Values &values, std::span<const uint32_t> sorted, const uint32_t *rows, uint8_t *marks);

/*
 * Adds the number of rows of each type to counts[type], of which there are 256. If `places` is not null, sets
 * places[row] to the number of earlier rows of the same type.
 */
void place_rows(std::span<const uint8_t> types, uint32_t *counts, uint32_t *places);

/* Sets `rows` to the rows of one type, at most `most`; returns how many there are. */
size_t rows_of_type(std::span<const uint8_t> types, uint8_t type, uint32_t *rows, size_t most);

/* Sorts `rows` by (times[row], row), and sets `sorted` to their times. */
void sort_rows(const uint64_t *times, uint32_t *rows, size_t count, bool descending, uint64_t *sorted);

/* Sets target[to[i]] to source[from[i]]; the values have one width, and the caller checks all indexes. */
void scatter(const Values &source, const uint32_t *from, const Values &target, const uint32_t *to, size_t count);
