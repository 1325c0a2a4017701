#include "owner_rows.h"

#include <algorithm>

namespace
{

constexpr uint32_t kNone = ContextTexts::kNone;
constexpr uint64_t kDayNs = 86'400'000'000'000;
/* Values of `kind` in the table `by_id`. */
constexpr uint64_t kTransaction = 1, kTrace = 2;

void add_once(std::vector<uint32_t> &list, uint32_t value)
{
	if (std::ranges::find(list, value) == list.end())
		list.push_back(value);
}

void sort_texts(std::vector<uint32_t> &list, const TextPool &pool)
{
	std::ranges::sort(list, [&](uint32_t a, uint32_t b) { return pool.is_before(a, b); });
}

} // namespace

/* `id_of` returns the text by which a context is looked up, or kNone. */
template <typename IdOf> void OwnerRows::summarize(const SegmentRows &segment, const References &references, IdOf id_of)
{
	const RecordedColumns &schema = segment.schema();
	summaries.clear();
	contexts.clear();
	by_id_text.clear();
	summary_of.assign(references.context_list.size(), 0);
	std::array<std::vector<OriginSlot>, 256> slots;
	for (const OriginSlot &slot : schema.origins)
		slots[slot.event_type].push_back(slot);
	std::array<uint32_t, 256> next = {};
	const uint32_t *own_ids = segment.words<uint32_t>(schema.context);
	const uint32_t *own_service_ids = segment.words<uint32_t>(schema.service);
	const uint8_t *sources = segment.words<uint8_t>(schema.context_source);
	const std::span<const uint32_t> own = segment.places_of(schema.context);
	const std::span<const uint32_t> own_services = segment.places_of(schema.service);
	for (uint32_t row = 0; row < segment.rows; row++) {
		const uint8_t type = segment.types()[row];
		const uint32_t at = next[type]++;
		if (own_ids[row] != 0)
			add_owner(segment, references, id_of, row, own[row], own_service_ids[row], own_services[row],
				  sources[row] == schema.written_back, 0);
		for (const OriginSlot &slot : slots[type]) {
			if (segment.words<uint32_t>(slot.context)[at] == 0)
				continue;
			/* A request has less than 2^32 bytes. */
			const uint64_t bytes = static_cast<uint32_t>(segment.words<uint64_t>(slot.bytes)[at]);
			add_owner(segment, references, id_of, row, segment.places_of(slot.context)[at],
				  segment.words<uint32_t>(slot.service)[at], segment.places_of(slot.service)[at], true,
				  bytes);
		}
	}
}

/* `bytes`: amount of the owner's data that a request carries. */
template <typename IdOf>
void OwnerRows::add_owner(const SegmentRows &segment, const References &references, IdOf id_of, uint32_t row,
			  uint32_t context, uint32_t service_id, uint32_t service, bool is_back, uint64_t bytes)
{
	uint32_t found = summary_of[context];
	if (found == 0) {
		contexts.push_back(context);
		found = 1;
		if (const uint32_t id = id_of(references.context_list[context]); id != kNone) {
			const auto [known, is_new] =
			    by_id_text.try_emplace(id, static_cast<uint32_t>(summaries.size()));
			if (is_new) {
				summaries.push_back({id, context, row, row, row});
			}
			found = 2 + known->second;
		}
		summary_of[context] = found;
	}
	if (found == 1)
		return;
	Summary &summary = summaries[found - 2];
	if (service_id != 0 && service_id != summary.last_service) {
		add_once(summary.services, service);
		summary.last_service = service_id;
	}
	/* A transaction that owns several parts of a request counts one event. */
	if (summary.last_row != row)
		add_row(segment, summary, row, is_back);
	if (summary.is_last_written_back)
		summary.written_back_bytes += bytes;
}

void OwnerRows::add_row(const SegmentRows &segment, Summary &summary, uint32_t row, bool is_back)
{
	const RecordedColumns &schema = segment.schema();
	const uint64_t *timestamps = segment.words<uint64_t>(schema.timestamp);
	const uint64_t *durations = segment.words<uint64_t>(schema.duration);
	const bool has_own = summary.event_count > summary.written_back_count;
	summary.last_row = row;
	summary.is_last_written_back = is_back;
	summary.event_count++;
	summary.error_count += segment.words<uint64_t>(schema.result)[row] >> 63;
	if (timestamps[row] < timestamps[summary.first_row])
		summary.first_row = row;
	if (timestamps[row] > timestamps[summary.latest_row])
		summary.latest_row = row;
	/* An own event counts as slower than any write-back. */
	if (is_back == has_own ? !is_back : durations[summary.slowest_row] < durations[row])
		summary.slowest_row = row;
	summary.written_back_count += is_back;
	Time &end = is_back ? summary.written_back_end : summary.own_end;
	end = std::max(end, static_cast<Time>(timestamps[row]) + durations[row]);
	if (!is_back)
		summary.own_start = std::min(summary.own_start, timestamps[row]);
	const uint32_t owner = segment.owners()[row];
	if (summary.owners.empty() || summary.owners.back() != owner)
		add_once(summary.owners, owner);
}

/*
 * Finds the traces that are one transaction each, as most are: the sums of the transaction are then those of the trace
 * too. The events of a context belong to both or to neither.
 */
void OwnerRows::find_traces_of_one(const References &references)
{
	std::unordered_map<uint32_t, uint32_t> transaction_of, trace_of;
	trace_of_transaction.clear();
	other_traces.clear();
	for (const uint32_t context : contexts) {
		const auto &[transaction, trace, _, __, ___] = references.context_list[context];
		if (trace != kNone) {
			const auto [known, is_new] = transaction_of.try_emplace(trace, transaction);
			if (transaction == kNone || (!is_new && known->second != transaction))
				other_traces.insert(trace);
			known->second = transaction;
		}
		if (transaction == kNone)
			continue;
		const auto [known, is_new] = trace_of.try_emplace(transaction, trace);
		if (!is_new && known->second != trace) {
			for (const uint32_t one : {known->second, trace}) {
				if (one != kNone)
					other_traces.insert(one);
			}
		}
		known->second = trace;
	}
	for (const auto &[trace, transaction] : transaction_of) {
		if (!other_traces.contains(trace))
			trace_of_transaction.emplace(transaction, trace);
	}
}

void OwnerRows::add(const SegmentRows &segment, const References &references, uint64_t first_number, TableRows &by_id,
		    TableRows &transaction)
{
	const RecordedColumns &schema = segment.schema();
	const uint64_t *timestamps = segment.words<uint64_t>(schema.timestamp);
	const uint64_t *durations = segment.words<uint64_t>(schema.duration);

	const auto add_summary = [&](TableRows &to, const Summary &summary) {
		to.text(schema.node)
		    .texts(summary.services)
		    .number(timestamps[summary.first_row])
		    .number(timestamps[summary.latest_row])
		    .number(static_cast<uint64_t>(summary.own_end))
		    .number(summary.event_count)
		    .number(summary.error_count)
		    .number(durations[summary.slowest_row])
		    .number(segment.numbers()[summary.slowest_row])
		    .number(segment.numbers()[summary.last_row])
		    .number(summary.written_back_count)
		    .number(summary.written_back_bytes)
		    .number(static_cast<uint64_t>(summary.written_back_end))
		    .bytes(references.context_list[summary.context].trace_bytes)
		    .number(summary.own_end > 0 ? summary.own_start : 0);
	};
	const auto add_by_id = [&](uint64_t kind, uint32_t id, const Summary &summary) {
		by_id.number(kind)
		    .text(id)
		    .number(timestamps[summary.first_row] / kDayNs)
		    .number(schema.recording)
		    .number(first_number)
		    .texts(summary.owners);
		add_summary(by_id, summary);
	};
	const auto sort_lists = [&] {
		for (Summary &summary : summaries) {
			sort_texts(summary.services, references.texts);
			sort_texts(summary.owners, references.texts);
		}
	};

	summarize(segment, references, [](const ContextTexts &context) { return context.transaction; });
	find_traces_of_one(references);
	sort_lists();
	for (const Summary &summary : summaries) {
		add_by_id(kTransaction, summary.id, summary);
		const auto add_transaction = [&](uint32_t service) {
			transaction.text(service)
			    .text(summary.id)
			    .number(references.context_list[summary.context].transaction_hash)
			    .number(schema.recording)
			    .number(first_number);
			add_summary(transaction, summary);
		};
		/*
		 * A list that is not filtered by service reads one row for each transaction, the row with the service
		 * ''.
		 */
		add_transaction(0);
		std::ranges::for_each(summary.services, add_transaction);
		if (const auto trace = trace_of_transaction.find(summary.id); trace != trace_of_transaction.end())
			add_by_id(kTrace, trace->second, summary);
	}
	if (other_traces.empty())
		return;
	summarize(segment, references, [this](const ContextTexts &context) {
		return context.trace != kNone && other_traces.contains(context.trace) ? context.trace : kNone;
	});
	sort_lists();
	for (const Summary &summary : summaries)
		add_by_id(kTrace, summary.id, summary);
}
