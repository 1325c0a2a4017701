#pragma once

#include "segment_rows.h"
#include "table_rows.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

/* Makes the rows of the tables `by_id` and `transaction`: a segment's share of each transaction and trace. */
class OwnerRows
{
      public:
	void add(const SegmentRows &segment, const References &references, uint64_t first_number, TableRows &by_id,
		 TableRows &transaction);

      private:
	/* Ends may lie beyond 64 bits until they are written. */
	using Time = unsigned __int128;
	struct Summary {
		/* The text of the transaction's or trace's id, and a context that has it. */
		uint32_t id, context;
		uint32_t first_row, slowest_row, latest_row, last_row = UINT32_MAX;
		uint64_t event_count = 0, error_count = 0, written_back_count = 0, written_back_bytes = 0;
		/* The first start of an own event; undefined while `own_end` is 0. */
		uint64_t own_start = UINT64_MAX;
		Time own_end = 0, written_back_end = 0;
		bool is_last_written_back = false;
		/* Id of the last service. */
		uint32_t last_service = 0;
		/* Numbers of texts, each once. */
		std::vector<uint32_t> services = {}, owners = {};
	};
	std::vector<Summary> summaries;
	/* State of each context: 0 not known yet, 1 no owner, or 2 + the index of its summary. */
	std::vector<uint32_t> summary_of;
	/* The contexts in the order in which they were met. */
	std::vector<uint32_t> contexts;
	/* Index of the summary, by the text of its id. */
	std::unordered_map<uint32_t, uint32_t> by_id_text;
	/* Traces that are one transaction each, by that transaction; and the other traces. */
	std::unordered_map<uint32_t, uint32_t> trace_of_transaction;
	std::unordered_set<uint32_t> other_traces;

	template <typename IdOf> void summarize(const SegmentRows &segment, const References &references, IdOf id_of);
	template <typename IdOf>
	void add_owner(const SegmentRows &segment, const References &references, IdOf id_of, uint32_t row,
		       uint32_t context, uint32_t service_id, uint32_t service, bool is_back, uint64_t bytes);
	void add_row(const SegmentRows &segment, Summary &summary, uint32_t row, bool is_back);
	void find_traces_of_one(const References &references);
};
