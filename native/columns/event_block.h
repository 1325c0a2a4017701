#pragma once

#include "block_writer.h"
#include "segment_rows.h"

#include <vector>

/* Columns of the table `event`, and where their values come from. */
enum class EventPart : uint8_t {
	recording,
	number,
	owner,
	node,
	/* The column's values; 0 in rows of other types, as all that follow are 0 or '' there. */
	value,
	/* The text that stands for a value. */
	word,
	name,
	path,
	file_kind,
	transaction,
	trace,
	span,
	/* Lists of an event's origins: those that name an owner or bytes, in the order of their slots. */
	origin_services,
	origin_transactions,
	origin_traces,
	origin_bytes,
	count
};

struct EventColumn {
	ColumnHead head;
	EventPart part;
	/* In the recording. */
	uint32_t column;
	/* Text of each value; larger values have none. */
	std::vector<uint32_t> words;
};

/* Writes blocks of the table `event`. Keeps memory from one to the next. */
class EventBlocks
{
      public:
	/* False if there is no room. */
	bool write(BlockWriter &to, const SegmentRows &segment, const References &references,
		   std::span<const EventColumn *const> columns);

      private:
	DictionaryWriter dictionary;
	std::vector<uint32_t> texts;
	struct Origin {
		uint32_t service, context;
		uint64_t bytes;
	};
	std::vector<Origin> origins;
	std::vector<uint64_t> origin_ends;

	std::span<const uint32_t> contexts_of(const SegmentRows &segment, uint32_t column);
	void write_column(BlockWriter &to, const SegmentRows &segment, const References &references,
			  const EventColumn &column);
	void write_origins(BlockWriter &to, const References &references, EventPart part) const;
	void find_origins(const SegmentRows &segment);
};
