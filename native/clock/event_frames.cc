#include "event_frames.h"

#include "../base/text_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace
{

/* An upper bound of the bytes that are added to the event's own JSON: the texts below and five numbers. */
constexpr size_t kMoreBytesMax = 320;

/* The offsets and durations of a plan are integers below 2^53. */
uint64_t whole(double value)
{
	return value > 0 ? static_cast<uint64_t>(value) : 0;
}

} // namespace

void write_lateness(uint8_t *to, int64_t lateness_ns)
{
	std::array<char, kDecimalMax> digits;
	const auto written =
	    std::to_chars(digits.data(), digits.data() + digits.size(), std::max<int64_t>(lateness_ns, 0));
	const size_t count = std::min<size_t>(written.ptr - digits.data(), kLatenessDigits);
	std::memcpy(to, digits.data(), count);
	std::memset(to + count, ' ', kLatenessDigits - count);
}

size_t write_events(const EventRun &run, std::optional<uint64_t> first_id, std::span<FramePlace> places,
		    std::span<uint8_t> to)
{
	char *const begin = reinterpret_cast<char *>(to.data());
	Writer writer = {begin, begin + to.size()};
	for (size_t i = 0; i < places.size(); i++) {
		const uint32_t json_start = i == 0 ? run.json_start : run.json_ends[i - 1];
		/* The replay fields follow the last field, in place of the closing brace. */
		const size_t json_size = run.json_ends[i] - json_start - 1;
		char *const start = writer.at;
		if (writer.room() < json_size + kMoreBytesMax)
			return i;
		if (first_id) {
			writer.put("event: event\nid: ");
			writer.decimal(*first_id + i);
			writer.put("\ndata: ");
		}
		writer.put(std::string_view(reinterpret_cast<const char *>(run.json) + json_start, json_size));
		writer.put(R"(,"replay":{"index":)");
		writer.decimal(run.first_index + i);
		writer.put(R"(,"offset_ns":)");
		writer.decimal(whole(run.start_ns[i]));
		writer.put(R"(,"due_ns":)");
		writer.decimal(places[i].due_ns);
		writer.put(R"(,"lateness_ns":)");
		places[i].lateness_at = writer.at - start;
		write_lateness(reinterpret_cast<uint8_t *>(writer.at), 0);
		writer.at += kLatenessDigits;
		writer.put(R"(,"duration_ns":)");
		writer.decimal(whole(run.duration_ns[i]));
		const bool is_late =
		    run.is_own[i] == 1 && run.timeout_ns && run.start_ns[i] + run.duration_ns[i] > *run.timeout_ns;
		writer.put(is_late ? R"(,"after_timeout":true}})" : R"(,"after_timeout":false}})");
		if (first_id)
			writer.put("\n\n");
		places[i].start = start - begin;
		places[i].size = writer.at - start;
	}
	return places.size();
}
