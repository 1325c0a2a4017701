#pragma once

#include "text_pool.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

/*
 * Writes columns as a block of FORMAT Native into memory of a given size. Bytes that do not fit are left out and noted,
 * so that the caller starts again with more memory.
 */
class BlockWriter
{
      public:
	BlockWriter(uint8_t *to, size_t size) : begin(to), at(to), end(to + size)
	{
	}
	bool is_full() const
	{
		return full;
	}
	size_t size() const
	{
		return static_cast<size_t>(at - begin);
	}

	/* Returns where to write the given number of bytes; null if there is no room. */
	uint8_t *take(size_t bytes)
	{
		if (static_cast<size_t>(end - at) < bytes) {
			full = true;
			return nullptr;
		}
		uint8_t *taken = at;
		at += bytes;
		return taken;
	}
	void bytes(const void *from, size_t count);
	void varint(uint64_t value);
	void u64(uint64_t value)
	{
		bytes(&value, sizeof(value));
	}
	/* Writes the length and the bytes of a text. */
	void text(std::string_view text)
	{
		varint(text.size());
		bytes(text.data(), text.size());
	}
	/* Does the same for a text with padding, which takes one copy of fixed size if the text is short. */
	void text(const TextPool &pool, uint32_t text)
	{
		const size_t length = pool.length(text);
		if (length >= 0x80 || static_cast<size_t>(end - at) < 1 + length + TextPool::kPadding)
			return this->text(pool.at(text));
		*at++ = static_cast<uint8_t>(length);
		const char *from = pool.data(text);
		for (size_t done = 0; done < length; done += TextPool::kPadding)
			std::memcpy(at + done, from + done, TextPool::kPadding);
		at += length;
	}

      private:
	uint8_t *begin, *at, *end;
	bool full = false;
};

/*
 * Writes LowCardinality columns: the distinct texts, the empty one first, then an index for each row. A server of 18.16
 * crashes at an index that is not in the dictionary, so all indexes are made here.
 */
class DictionaryWriter
{
      public:
	/* All texts must be in the pool. */
	void write(BlockWriter &to, const TextPool &pool, std::span<const uint32_t> texts);
	/* Does the same for rows that all have one text. */
	void write(BlockWriter &to, const TextPool &pool, uint32_t text, size_t rows);

      private:
	/* Place of each text in this block's dictionary; 0 if the text is not there yet. All are 0 between columns. */
	std::vector<uint32_t> place_of;
	std::vector<uint32_t> used;
	std::vector<uint32_t> indexes;

	void write_head(BlockWriter &to, const TextPool &pool, size_t rows) const;
};

/* Name and type of a column, which each block contains. */
struct ColumnHead {
	std::string name, type;

	void write(BlockWriter &to) const
	{
		to.text(name);
		to.text(type);
	}
};
