#include "event_block.h"

#include "words.h"

#include <algorithm>

namespace
{

bool is_of_origins(const EventColumn *column)
{
	return column->part >= EventPart::origin_services;
}

template <typename Word> void scatter(const uint8_t *from, std::span<const uint32_t> rows, uint8_t *to)
{
	for (size_t i = 0; i < rows.size(); i++)
		std::memcpy(to + rows[i] * sizeof(Word), from + i * sizeof(Word), sizeof(Word));
}

void write_values(BlockWriter &to, const SegmentRows &segment, uint32_t column)
{
	const auto [event_type, width, _] = segment.column(column);
	const std::span<const uint8_t> values = segment.bytes_of(column);
	if (values.size() == segment.rows * width)
		return to.bytes(values.data(), values.size());
	uint8_t *out = to.take(segment.rows * width);
	if (!out)
		return;
	std::memset(out, 0, segment.rows * width);
	const std::span<const uint32_t> rows = segment.rows_of(event_type);
	if (width == 1)
		scatter<uint8_t>(values.data(), rows, out);
	else if (width == 2)
		scatter<uint16_t>(values.data(), rows, out);
	else if (width == 4)
		scatter<uint32_t>(values.data(), rows, out);
	else
		scatter<uint64_t>(values.data(), rows, out);
}

/* Sets the text of each row that has a value; other rows have the empty text. */
template <typename TextOf>
void set_texts(const SegmentRows &segment, uint32_t column, std::vector<uint32_t> &texts, TextOf text_of)
{
	const uint8_t type = segment.column(column).event_type;
	if (type == 0) {
		texts.resize(segment.rows);
		for (size_t row = 0; row < segment.rows; row++)
			texts[row] = text_of(row);
		return;
	}
	texts.assign(segment.rows, 0);
	const std::span<const uint32_t> rows = segment.rows_of(type);
	for (size_t i = 0; i < rows.size(); i++)
		texts[rows[i]] = text_of(i);
}

void write_texts(BlockWriter &to, const TextPool &pool, std::span<const uint32_t> texts)
{
	for (const uint32_t text : texts)
		to.text(pool, text);
}

uint32_t transaction_text(const ContextTexts &context)
{
	return context.transaction == ContextTexts::kNone ? 0 : context.transaction;
}

/* `bytes_of` returns the bytes of a context, all of one size. */
template <typename Contexts, typename BytesOf>
void write_fixed(BlockWriter &to, const References &references, const Contexts &contexts, BytesOf bytes_of)
{
	constexpr size_t size = sizeof(bytes_of(ContextTexts()));
	uint8_t *out = to.take(contexts.size() * size);
	for (size_t i = 0; out && i < contexts.size(); i++)
		std::memcpy(out + i * size, bytes_of(references.context_list[contexts[i]]).data(), size);
}

constexpr auto trace_of = [](const ContextTexts &context) { return context.trace_bytes; };
constexpr auto span_of = [](const ContextTexts &context) { return context.span_bytes; };

} // namespace

bool EventBlocks::write(BlockWriter &to, const SegmentRows &segment, const References &references,
			std::span<const EventColumn *const> columns)
{
	if (std::ranges::any_of(columns, is_of_origins))
		find_origins(segment);
	to.varint(columns.size());
	to.varint(segment.rows);
	for (const EventColumn *column : columns) {
		column->head.write(to);
		if (is_of_origins(column))
			write_origins(to, references, column->part);
		else
			write_column(to, segment, references, *column);
		if (to.is_full())
			return false;
	}
	return true;
}

void EventBlocks::write_column(BlockWriter &to, const SegmentRows &segment, const References &references,
			       const EventColumn &column)
{
	const RecordedColumns &schema = segment.schema();
	const TextPool &pool = references.texts;
	const uint32_t at = column.column;
	switch (column.part) {
	case EventPart::recording:
		for (size_t row = 0; row < segment.rows; row++)
			to.u64(schema.recording);
		return;
	case EventPart::number:
		return to.bytes(segment.numbers(), segment.rows * sizeof(uint64_t));
	case EventPart::owner:
		return dictionary.write(to, pool, segment.owners());
	case EventPart::node:
		return dictionary.write(to, pool, schema.node, segment.rows);
	case EventPart::value:
		return write_values(to, segment, at);
	case EventPart::word: {
		const std::span<const uint8_t> values = segment.bytes_of(at);
		const size_t width = segment.column(at).width;
		set_texts(segment, at, texts, [&, words = std::span(column.words)](size_t i) {
			const uint64_t value = load(values.data() + i * width, width);
			return value < words.size() ? words[value] : 0;
		});
		return dictionary.write(to, pool, texts);
	}
	case EventPart::name:
		if (segment.column(at).event_type == 0)
			return dictionary.write(to, pool, segment.places_of(at));
		set_texts(segment, at, texts, [names = segment.places_of(at)](size_t i) { return names[i]; });
		return dictionary.write(to, pool, texts);
	case EventPart::path:
	case EventPart::file_kind: {
		const bool is_path = column.part == EventPart::path;
		const std::span<const uint32_t> files = segment.places_of(at);
		set_texts(segment, at, texts, [&](size_t i) {
			const auto [path, kind] = references.file_list[files[i]];
			return is_path ? path : kind;
		});
		return is_path ? write_texts(to, pool, texts) : dictionary.write(to, pool, texts);
	}
	case EventPart::transaction: {
		const std::span<const uint32_t> contexts = segment.places_of(at);
		set_texts(segment, at, texts,
			  [&](size_t i) { return transaction_text(references.context_list[contexts[i]]); });
		return write_texts(to, pool, texts);
	}
	case EventPart::trace:
		return write_fixed(to, references, contexts_of(segment, at), trace_of);
	case EventPart::span:
		return write_fixed(to, references, contexts_of(segment, at), span_of);
	default:
		return;
	}
}

/* Places of the contexts that a column refers to: one for each row, 0 in rows of types without the column. */
std::span<const uint32_t> EventBlocks::contexts_of(const SegmentRows &segment, uint32_t column)
{
	const std::span<const uint32_t> places = segment.places_of(column);
	if (segment.column(column).event_type == 0)
		return places;
	set_texts(segment, column, texts, [&](size_t i) { return places[i]; });
	return texts;
}

void EventBlocks::find_origins(const SegmentRows &segment)
{
	origins.clear();
	origin_ends.resize(segment.rows);
	std::array<std::vector<OriginSlot>, 256> slots;
	for (const OriginSlot &slot : segment.schema().origins)
		slots[slot.event_type].push_back(slot);
	std::array<size_t, 256> next = {};
	for (size_t row = 0; row < segment.rows; row++) {
		const uint8_t type = segment.types()[row];
		const size_t at = next[type]++;
		for (const OriginSlot &slot : slots[type]) {
			const uint64_t bytes = segment.words<uint64_t>(slot.bytes)[at];
			if (segment.words<uint32_t>(slot.service)[at] == 0 &&
			    segment.words<uint32_t>(slot.context)[at] == 0 && bytes == 0)
				continue;
			origins.push_back(
			    {segment.places_of(slot.service)[at], segment.places_of(slot.context)[at], bytes});
		}
		origin_ends[row] = origins.size();
	}
}

void EventBlocks::write_origins(BlockWriter &to, const References &references, EventPart part) const
{
	to.bytes(origin_ends.data(), origin_ends.size() * sizeof(uint64_t));
	for (const Origin &origin : origins) {
		const ContextTexts &context = references.context_list[origin.context];
		if (part == EventPart::origin_services)
			to.text(references.texts, origin.service);
		else if (part == EventPart::origin_transactions)
			to.text(references.texts, transaction_text(context));
		else if (part == EventPart::origin_traces)
			to.bytes(context.trace_bytes.data(), context.trace_bytes.size());
		else
			to.u64(origin.bytes);
	}
}
