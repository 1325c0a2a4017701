#include "text_pool.h"

#include <algorithm>

namespace
{

constexpr size_t kSlotsMin = 1024;

/* Characters beyond U+FFFF come before U+E000 to U+FFFF in UTF-16, and after them in UTF-8. */
int rank_of(char byte)
{
	const int value = static_cast<unsigned char>(byte);
	return value == 0xee || value == 0xef ? value + 0x100 : value;
}

} // namespace

TextPool::TextPool() : bytes(kPadding, 0), slots(kSlotsMin)
{
	add("");
	keep();
}

/* Returns the slot of the text, or the free one where it belongs. */
size_t TextPool::slot_of(std::string_view text) const
{
	size_t slot = std::hash<std::string_view>()(text) & (slots.size() - 1);
	while (slots[slot] != 0 && at(slots[slot] - 1) != text)
		slot = (slot + 1) & (slots.size() - 1);
	return slot;
}

void TextPool::insert(uint32_t text)
{
	slots[slot_of(at(text))] = text + 1;
}

uint32_t TextPool::add(std::string_view text)
{
	const size_t slot = slot_of(text);
	if (slots[slot] != 0)
		return slots[slot] - 1;
	const size_t start = bytes.size() - kPadding;
	const uint32_t number = static_cast<uint32_t>(places.size());
	bytes.resize(start);
	bytes.append(text);
	bytes.append(kPadding, 0);
	places.push_back({start, static_cast<uint32_t>(text.size())});
	slots[slot] = number + 1;
	if (places.size() * 2 > slots.size()) {
		slots.assign(slots.size() * 2, 0);
		for (uint32_t known = 0; known < places.size(); known++)
			insert(known);
	}
	return number;
}

void TextPool::keep()
{
	kept = places.size();
}

void TextPool::clear()
{
	places.resize(kept);
	bytes.resize(places.back().start + places.back().length);
	bytes.append(kPadding, 0);
	slots.assign(std::max(kSlotsMin, slots.size() / 2), 0);
	while (kept * 2 > slots.size())
		slots.resize(slots.size() * 2);
	for (uint32_t known = 0; known < kept; known++)
		insert(known);
}

bool TextPool::is_before(uint32_t a, uint32_t b) const
{
	return std::ranges::lexicographical_compare(at(a), at(b), {}, rank_of, rank_of);
}
