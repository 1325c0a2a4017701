#pragma once

#include "text_pool.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

/* Maps the ids of a recording to places. */
class IdMap
{
      public:
	static constexpr uint32_t kUnknown = UINT32_MAX;

	IdMap();
	/* The id 0 has the place 0. */
	uint32_t find(uint32_t id) const
	{
		size_t slot = slot_of(id);
		while (keys[slot] != id && keys[slot] != 0)
			slot = (slot + 1) & (keys.size() - 1);
		return id == 0 ? 0 : keys[slot] == id ? places[slot] : kUnknown;
	}
	void add(uint32_t id, uint32_t place);
	void clear();
	size_t size() const
	{
		return used;
	}

      private:
	size_t used = 0;
	/* 0 is a free slot. */
	std::vector<uint32_t> keys, places;

	size_t slot_of(uint32_t id) const
	{
		return (id * 0x9e3779b1u >> 8) & (keys.size() - 1);
	}
	void grow();
};

struct FileTexts {
	uint32_t path, kind;
};

/* The ids of a context: as texts, where kNone means no id, and as bytes, where zeros mean no id. */
struct ContextTexts {
	static constexpr uint32_t kNone = UINT32_MAX;
	uint32_t transaction = kNone, trace = kNone;
	std::array<uint8_t, 16> trace_bytes = {};
	std::array<uint8_t, 8> span_bytes = {};
	uint64_t transaction_hash = 0;
};

enum class Refers : uint8_t { nothing, name, file, context, count };

/* Entries that the ids of a recording refer to, as far as they were looked up. */
struct References {
	TextPool texts;
	/* The text of each name; the number of each file and context in the lists. */
	IdMap names, files, contexts;
	std::vector<FileTexts> file_list{{0, 0}};
	std::vector<ContextTexts> context_list{{}};

	const IdMap &map_of(Refers to) const
	{
		return to == Refers::name ? names : to == Refers::file ? files : contexts;
	}
	/* Forgets all entries if they take too much memory. */
	void limit();
};
