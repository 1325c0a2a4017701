#include "block_writer.h"

namespace
{

/* Flags of a LowCardinality column's block: its dictionary is in the block, not in one before. */
constexpr uint64_t kDictionaryVersion = 1, kHasOwnKeys = 1 << 9, kUpdatesDictionary = 1 << 10;

constexpr uint64_t width_code(size_t size)
{
	return size <= 0x100 ? 0 : size <= 0x10000 ? 1 : 2;
}

template <typename Index> void write_indexes(BlockWriter &to, std::span<const uint32_t> indexes)
{
	uint8_t *out = to.take(indexes.size() * sizeof(Index));
	if (!out)
		return;
	for (size_t row = 0; row < indexes.size(); row++) {
		const Index index = static_cast<Index>(indexes[row]);
		std::memcpy(out + row * sizeof(Index), &index, sizeof(Index));
	}
}

} // namespace

void BlockWriter::bytes(const void *from, size_t count)
{
	uint8_t *out = take(count);
	if (out && count > 0)
		std::memcpy(out, from, count);
}

void BlockWriter::varint(uint64_t value)
{
	uint8_t encoded[10];
	size_t length = 0;
	for (; value >= 0x80; value >>= 7)
		encoded[length++] = static_cast<uint8_t>(value) | 0x80;
	encoded[length++] = static_cast<uint8_t>(value);
	bytes(encoded, length);
}

void DictionaryWriter::write_head(BlockWriter &to, const TextPool &pool, size_t rows) const
{
	const size_t size = used.size() + 1;
	to.u64(kDictionaryVersion);
	to.u64(kHasOwnKeys | kUpdatesDictionary | width_code(size));
	to.u64(size);
	to.varint(0);
	for (const uint32_t text : used)
		to.text(pool, text);
	to.u64(rows);
}

void DictionaryWriter::write(BlockWriter &to, const TextPool &pool, std::span<const uint32_t> texts)
{
	if (place_of.size() < pool.size())
		place_of.resize(pool.size() * 2);
	if (indexes.size() < texts.size())
		indexes.resize(texts.size());
	used.clear();
	for (size_t row = 0; row < texts.size(); row++) {
		const uint32_t text = texts[row];
		uint32_t place = place_of[text];
		if (place == 0 && text != 0) {
			used.push_back(text);
			place = static_cast<uint32_t>(used.size());
			place_of[text] = place;
		}
		indexes[row] = place;
	}
	for (const uint32_t text : used)
		place_of[text] = 0;
	write_head(to, pool, texts.size());
	const std::span<const uint32_t> found(indexes.data(), texts.size());
	const uint64_t code = width_code(used.size() + 1);
	if (code == 0)
		write_indexes<uint8_t>(to, found);
	else if (code == 1)
		write_indexes<uint16_t>(to, found);
	else
		write_indexes<uint32_t>(to, found);
}

void DictionaryWriter::write(BlockWriter &to, const TextPool &pool, uint32_t text, size_t rows)
{
	used.clear();
	if (text != 0)
		used.push_back(text);
	write_head(to, pool, rows);
	if (uint8_t *out = to.take(rows))
		std::memset(out, text != 0, rows);
}
