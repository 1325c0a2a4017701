#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/* Texts without an object for each, numbered as they come. Equal texts have one number; that of the empty text is 0. */
class TextPool
{
      public:
	/* Number of bytes that can be read after each text. */
	static constexpr size_t kPadding = 32;

	TextPool();
	uint32_t add(std::string_view text);
	const char *data(uint32_t text) const
	{
		return bytes.data() + places[text].start;
	}
	size_t length(uint32_t text) const
	{
		return places[text].length;
	}
	std::string_view at(uint32_t text) const
	{
		return {data(text), length(text)};
	}
	/* The number of texts, and of the bytes that they take. */
	size_t size() const
	{
		return places.size();
	}
	size_t memory() const
	{
		return bytes.size() + places.size() * sizeof(Place);
	}
	/* Makes clear() keep all texts that are in the pool now. */
	void keep();
	void clear();
	/* Orders texts as JavaScript does: by units of UTF-16. */
	bool is_before(uint32_t a, uint32_t b) const;

      private:
	struct Place {
		size_t start;
		uint32_t length;
	};
	/* The texts one after the other, and the padding. */
	std::string bytes;
	std::vector<Place> places;
	/* 1 + the number of a text, in the slot of its hash; 0 is a free slot. */
	std::vector<uint32_t> slots;
	size_t kept = 0;

	size_t slot_of(std::string_view text) const;
	void insert(uint32_t text);
};
