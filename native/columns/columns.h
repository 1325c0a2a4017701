#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/*
 * Encodes one column as bytes. Values are split into planes, all first bytes, then all second ones ..., because the
 * high bytes of neighbours are similar and compress well; planes that are all zero are omitted.
 *
 *   constant   [form][value: width bytes]
 *   planes     [form][mask][base: 8 bytes, only with delta][plane][plane]...   a plane is one byte a value
 *
 *   form = width | 0x10 constant | 0x20 delta;  bit p of mask: plane p is present
 *
 * With delta, which only 8-byte values have, planes contain the differences of neighbours modulo 2^64, zigzag-encoded
 * so that small negative ones are small too; the first is 0. The code assumes a little-endian machine, like the kernel
 * side.
 */

/* Integers of `width` 1, 2, 4 or 8 bytes. */
struct Values {
	uint8_t *data;
	size_t count;
	size_t width;
};

/* The most bytes that encode_column() writes. */
size_t encoded_bytes_max(const Values &values);

/* Writes the values, at least one, to `output`; returns the number of bytes written. */
size_t encode_column(const Values &values, bool delta, uint8_t *output);

/* Fills the values. Returns false unless the bytes have the form that encode_column() writes for this many values. */
bool decode_column(std::span<const uint8_t> encoded, const Values &values);

enum class Picked { yes, depends_on_others, damaged };

/* Sets to.data[targets[i]] = value[rows[i]] of an encoded column of `count` values; the caller checks rows and targets.
 */
Picked pick_values(std::span<const uint8_t> encoded, size_t count, const uint32_t *rows, const uint32_t *targets,
		   size_t picks, const Values &to);
