#include "references.h"

namespace
{

constexpr size_t kSlotsMin = 256;
constexpr size_t kMemoryMax = 4 << 20;
constexpr size_t kEntriesMax = 16'384;

} // namespace

IdMap::IdMap() : keys(kSlotsMin), places(kSlotsMin)
{
}

void IdMap::add(uint32_t id, uint32_t place)
{
	if (id == 0)
		return;
	size_t slot = slot_of(id);
	while (keys[slot] != id && keys[slot] != 0)
		slot = (slot + 1) & (keys.size() - 1);
	used += keys[slot] == 0 ? 1 : 0;
	keys[slot] = id;
	places[slot] = place;
	if (used * 2 > keys.size())
		grow();
}

void IdMap::grow()
{
	std::vector<uint32_t> old_keys(keys.size() * 2), old_places(keys.size() * 2);
	std::swap(keys, old_keys);
	std::swap(places, old_places);
	used = 0;
	for (size_t slot = 0; slot < old_keys.size(); slot++)
		add(old_keys[slot], old_places[slot]);
}

void IdMap::clear()
{
	keys.assign(kSlotsMin, 0);
	places.assign(kSlotsMin, 0);
	used = 0;
}

void References::limit()
{
	const size_t entries = names.size() + file_list.size() + context_list.size();
	if (texts.memory() <= kMemoryMax && entries <= kEntriesMax)
		return;
	texts.clear();
	names.clear();
	files.clear();
	contexts.clear();
	file_list.resize(1);
	context_list.resize(1);
}
