#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/* Number of characters of a lateness: a decimal number, padded with blanks, which JSON allows. */
constexpr size_t kLatenessDigits = 16;

/* The numbers of a frame; JavaScript and the functions below exchange them in this order. */
struct FramePlace {
	/* Time of the steady clock, which the caller sets. */
	int64_t due_ns;
	/* Offset of the frame and its size. */
	int64_t start, size;
	/* Offset of the lateness from the start of the frame. */
	int64_t lateness_at;
};

/* A run of events of a session: daemon/replay/plan/plan.ts describes the columns. */
struct EventRun {
	/* The events as JSON, and the end of each; the first one starts at `json_start`. */
	const uint8_t *json;
	uint32_t json_start;
	std::span<const uint32_t> json_ends;
	const double *start_ns, *duration_ns;
	const uint8_t *is_own;
	uint64_t first_index;
	std::optional<double> timeout_ns;
};

/* Writes a lateness, a number that is not negative, at the place that a frame has for it. */
void write_lateness(uint8_t *to, int64_t lateness_ns);

/*
 * Writes events with their replay fields: each as a frame of server-sent events with an id, from `first_id` on, or as
 * plain JSON without one. The lateness is zero. Sets the places, whose `start` counts from `to`, and returns how many
 * events fit.
 */
size_t write_events(const EventRun &run, std::optional<uint64_t> first_id, std::span<FramePlace> places,
		    std::span<uint8_t> to);
