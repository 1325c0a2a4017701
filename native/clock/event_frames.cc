#include "event_frames.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

namespace
{

constexpr size_t kDecimalMax = 20;
/* An upper bound of what is written beside the event's own JSON: the texts below and five numbers. */
constexpr size_t kMoreBytesMax = 320;

/* Writes where there is room: the caller has checked that. */
struct Pen {
	uint8_t *at;

	void put(std::string_view text)
	{
		std::memcpy(at, text.data(), text.size());
		at += text.size();
	}

	template <typename Number> void decimal(Number number)
	{
		char *const start = reinterpret_cast<char *>(at);
		at = reinterpret_cast<uint8_t *>(std::to_chars(start, start + kDecimalMax, number).ptr);
	}
};

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
	Pen pen = {to.data()};
	for (size_t i = 0; i < places.size(); i++) {
		const uint32_t json_start = i == 0 ? run.json_start : run.json_ends[i - 1];
		/* The replay fields follow the last field, in place of the closing brace. */
		const size_t json_size = run.json_ends[i] - json_start - 1;
		uint8_t *const start = pen.at;
		if (static_cast<size_t>(to.data() + to.size() - start) < json_size + kMoreBytesMax)
			return i;
		if (first_id) {
			pen.put("event: event\nid: ");
			pen.decimal(*first_id + i);
			pen.put("\ndata: ");
		}
		pen.put({reinterpret_cast<const char *>(run.json) + json_start, json_size});
		pen.put(R"(,"replay":{"index":)");
		pen.decimal(run.first_index + i);
		pen.put(R"(,"offset_ns":)");
		pen.decimal(whole(run.start_ns[i]));
		pen.put(R"(,"due_ns":)");
		pen.decimal(places[i].due_ns);
		pen.put(R"(,"lateness_ns":)");
		places[i].lateness_at = pen.at - start;
		write_lateness(pen.at, 0);
		pen.at += kLatenessDigits;
		pen.put(R"(,"duration_ns":)");
		pen.decimal(whole(run.duration_ns[i]));
		const bool is_late =
		    run.is_own[i] == 1 && run.timeout_ns && run.start_ns[i] + run.duration_ns[i] > *run.timeout_ns;
		pen.put(is_late ? R"(,"after_timeout":true}})" : R"(,"after_timeout":false}})");
		if (first_id)
			pen.put("\n\n");
		places[i].start = start - to.data();
		places[i].size = pen.at - start;
	}
	return places.size();
}
