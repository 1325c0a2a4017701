#include "columns.h"

#include "words.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace
{

constexpr uint8_t kConstant = 0x10;
constexpr uint8_t kDelta = 0x20;
constexpr uint8_t kWidthMask = 0x0f;
constexpr size_t kBaseBytes = 8;
constexpr size_t kHeadBytes = 2;

/* The loops below are short and over plain arrays: with AVX2 they process 32 bytes at a time. */
#define VECTORIZED __attribute__((target_clones("avx2", "default"), noinline))

/* `differ` has every bit that differs between any two of the values; `used` has every bit that is set in any. */
struct Bits {
	uint64_t used;
	uint64_t differ;
};

template <typename Word> VECTORIZED Bits bits_of(const Word *values, size_t count)
{
	Word used = 0, differ = 0;
	const Word first = values[0];
	for (size_t i = 0; i < count; i++) {
		used |= values[i];
		differ |= values[i] ^ first;
	}
	return {used, differ};
}

template <typename Word> VECTORIZED void take_plane(const Word *values, size_t count, unsigned shift, uint8_t *plane)
{
	for (size_t i = 0; i < count; i++)
		plane[i] = static_cast<uint8_t>(values[i] >> shift);
}

template <typename Word> VECTORIZED void put_plane(const uint8_t *plane, size_t count, unsigned shift, Word *values)
{
	for (size_t i = 0; i < count; i++)
		values[i] |= static_cast<Word>(static_cast<Word>(plane[i]) << shift);
}

/* Returns all bits that are set in any of the differences. */
VECTORIZED uint64_t to_delta(const uint64_t *values, size_t count, uint64_t *output)
{
	uint64_t used = 0;
	output[0] = 0;
	for (size_t i = 1; i < count; i++) {
		const uint64_t difference = values[i] - values[i - 1];
		output[i] = (difference << 1) ^ (0 - (difference >> 63));
		used |= output[i];
	}
	return used;
}

void from_delta(uint64_t *values, size_t count, uint64_t base)
{
	uint64_t value = base;
	for (size_t i = 0; i < count; i++) {
		value += (values[i] >> 1) ^ (0 - (values[i] & 1));
		values[i] = value;
	}
}

template <typename Word>
uint8_t take_planes(const Word *values, size_t count, uint64_t used, uint8_t *output, size_t &bytes)
{
	uint8_t mask = 0;
	for (size_t plane = 0; plane < sizeof(Word); plane++) {
		if ((used >> (plane * 8) & 0xff) == 0)
			continue;
		mask |= 1 << plane;
		take_plane(values, count, plane * 8, output + bytes);
		bytes += count;
	}
	return mask;
}

template <typename Word> size_t encode(const Word *values, size_t count, bool delta, uint8_t *output)
{
	const Bits bits = bits_of(values, count);
	if (bits.differ == 0) {
		output[0] = sizeof(Word) | kConstant;
		std::memcpy(output + 1, values, sizeof(Word));
		return 1 + sizeof(Word);
	}
	size_t bytes = kHeadBytes;
	if constexpr (sizeof(Word) == 8) {
		if (delta) {
			/* The buffer is kept between calls. */
			static thread_local std::vector<uint64_t> differences;
			differences.resize(std::max(differences.size(), count));
			const uint64_t used = to_delta(values, count, differences.data());
			output[0] = sizeof(Word) | kDelta;
			std::memcpy(output + bytes, values, kBaseBytes);
			bytes += kBaseBytes;
			output[1] = take_planes(differences.data(), count, used, output, bytes);
			return bytes;
		}
	}
	output[0] = sizeof(Word);
	output[1] = take_planes(values, count, bits.used, output, bytes);
	return bytes;
}

struct Shape {
	bool constant, delta;
	/* The planes that are present. */
	uint8_t mask;
	/* The offset of the value, or of the first plane. */
	size_t start;
};

/* Returns false unless the bytes encode exactly `count` values. */
bool read_shape(std::span<const uint8_t> encoded, size_t width, size_t count, Shape &shape)
{
	if (encoded.size() < 1 || (encoded[0] & kWidthMask) != width)
		return false;
	shape = {(encoded[0] & kConstant) != 0, (encoded[0] & kDelta) != 0, 0, 1};
	if (shape.constant)
		return encoded.size() == 1 + width;
	if (encoded.size() < kHeadBytes || (shape.delta && width != 8))
		return false;
	shape.mask = encoded[1];
	shape.start = shape.delta ? kHeadBytes + kBaseBytes : kHeadBytes;
	const size_t planes = std::popcount(shape.mask);
	if (shape.mask >= 1u << width || encoded.size() < shape.start)
		return false;
	const size_t bytes = encoded.size() - shape.start;
	return planes == 0 ? bytes == 0 : bytes % planes == 0 && bytes / planes == count;
}

template <typename Word> void decode(std::span<const uint8_t> encoded, const Shape &shape, Word *values, size_t count)
{
	if (shape.constant) {
		Word value;
		std::memcpy(&value, encoded.data() + shape.start, sizeof(Word));
		std::fill_n(values, count, value);
		return;
	}
	std::fill_n(values, count, 0);
	const uint8_t *plane = encoded.data() + shape.start;
	for (size_t byte = 0; byte < sizeof(Word); byte++) {
		if ((shape.mask >> byte & 1) == 0)
			continue;
		put_plane(plane, count, byte * 8, values);
		plane += count;
	}
	if constexpr (sizeof(Word) == 8) {
		if (!shape.delta)
			return;
		uint64_t base;
		std::memcpy(&base, encoded.data() + kHeadBytes, kBaseBytes);
		from_delta(values, count, base);
	}
}

template <typename Word>
void pick(std::span<const uint8_t> encoded, const Shape &shape, size_t count, const uint32_t *rows,
	  const uint32_t *targets, size_t picks, Word *to)
{
	Word constant = 0;
	if (shape.constant)
		std::memcpy(&constant, encoded.data() + shape.start, sizeof(Word));
	for (size_t i = 0; i < picks; i++)
		to[targets[i]] = constant;
	const uint8_t *plane = encoded.data() + shape.start;
	for (size_t byte = 0; byte < sizeof(Word); byte++) {
		if ((shape.mask >> byte & 1) == 0)
			continue;
		for (size_t i = 0; i < picks; i++)
			to[targets[i]] |= static_cast<Word>(static_cast<Word>(plane[rows[i]]) << byte * 8);
		plane += count;
	}
}

} // namespace

size_t encoded_bytes_max(const Values &values)
{
	return kHeadBytes + kBaseBytes + values.count * values.width;
}

size_t encode_column(const Values &values, bool delta, uint8_t *output)
{
	return as_words(values, [&](auto *words) { return encode(words, values.count, delta, output); });
}

bool decode_column(std::span<const uint8_t> encoded, const Values &values)
{
	Shape shape;
	if (!read_shape(encoded, values.width, values.count, shape))
		return false;
	as_words(values, [&](auto *words) { decode(encoded, shape, words, values.count); });
	return true;
}

Picked pick_values(std::span<const uint8_t> encoded, size_t count, const uint32_t *rows, const uint32_t *targets,
		   size_t picks, const Values &to)
{
	Shape shape;
	if (!read_shape(encoded, to.width, count, shape))
		return Picked::damaged;
	if (!shape.constant && shape.delta)
		return Picked::depends_on_others;
	as_words(to, [&](auto *words) { pick(encoded, shape, count, rows, targets, picks, words); });
	return Picked::yes;
}
