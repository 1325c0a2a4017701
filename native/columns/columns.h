#pragma once

#include <cstddef>
#include <cstdint>

/*
 * One column as bytes. Values are split into planes, all first bytes, then all second ones ..., because the high bytes
 * of neighbours are alike and compress away; planes that are all zero are left out.
 *
 *   constant   [form][value: width bytes]
 *   planes     [form][mask][base: 8 bytes, only with delta][plane][plane]...   a plane is one byte a value
 *
 *   form = width | 0x10 constant | 0x20 delta;  bit p of mask: plane p is there
 *
 * With delta, which only values of 8 bytes have, planes hold the differences of neighbours modulo 2^64, zigzagged so
 * that small negative ones are small too; the first is 0. Assumes a little-endian machine, like the kernel side.
 */

/* Integers of `width` 1, 2, 4 or 8 bytes. */
struct Values {
	uint8_t *data;
	size_t count;
	size_t width;
};

struct Bytes {
	const uint8_t *data;
	size_t size;
};

/* What encode_column() writes at most. */
size_t encoded_bytes_max(const Values &values);

/* Writes the values, at least one, to `output`; returns the bytes that it wrote. */
size_t encode_column(const Values &values, bool delta, uint8_t *output);

/* Fills the values. False unless the bytes are what encode_column() writes for so many. */
bool decode_column(const Bytes &encoded, const Values &values);

enum class Picked { yes, depends_on_others, damaged };

/* to.data[targets[i]] = value[rows[i]] of an encoded column of `count` values; rows and targets were checked. */
Picked pick_values(const Bytes &encoded, size_t count, const uint32_t *rows, const uint32_t *targets, size_t picks,
		   const Values &to);
