#pragma once

#include "block_writer.h"
#include "segment_rows.h"

#include <vector>

/* Columns of the table `event`, and the sources of their values. */
enum class EventPart : uint8_t {
	recording,
	number,
	owner,
	node,
	/* The column's values. For rows of other types, this part and all that follow are 0 or ''. */
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
	/* The column of the recording. */
	uint32_t column;
	/* Text of each value; values beyond the list have none. */
	std::vector<uint32_t> words;
};

/* Writes blocks of the table `event`. Memory is kept from one block to the next. */
class EventBlocks
{
      public:
	/* Returns false if there is no room. */
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
