#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

/* A socket that gets the frames of a track as they are played. */
struct Viewer {
	uint32_t id;
	/* The player's own descriptor of the socket. */
	int fd;
	/* Each write is a chunk of HTTP/1.1. */
	bool is_chunked;
	/* The socket had no room for the last frame, and gets no more. */
	bool is_full;
	/* Bytes that the socket took. */
	uint64_t sent_bytes;
	/* Frames of the track up to this one were written to the socket, except for `rest`. */
	uint64_t through;
	std::string rest;
};

/*
 * Writes played frames, up to number `through` of the track. Bytes that the socket does not take become the viewer's
 * `rest`, and the viewer is then full.
 */
void send_to(Viewer &viewer, std::span<const uint8_t> bytes, uint64_t through);

/* Time that it takes to send `frame` to a socket of this process and to receive it there; nothing without sockets. */
std::optional<int64_t> send_time_ns(std::span<const uint8_t> frame);
