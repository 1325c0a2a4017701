#include "viewer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace
{

/* Eight digits, as the JavaScript side writes them, and the end of the line: RFC 9112, section 7.1. */
using ChunkHead = std::array<char, 10>;

ChunkHead chunk_head(size_t size)
{
	ChunkHead head;
	for (size_t i = 0; i < 8; i++)
		head[i] = "0123456789abcdef"[size >> (28 - 4 * i) & 15];
	head[8] = '\r';
	head[9] = '\n';
	return head;
}

} // namespace

void send_to(Viewer &viewer, std::span<const uint8_t> bytes, uint64_t through)
{
	static const char kChunkEnd[] = {'\r', '\n'};
	ChunkHead head = chunk_head(bytes.size());
	std::array<iovec, 3> parts = {{{head.data(), head.size()},
				       {const_cast<uint8_t *>(bytes.data()), bytes.size()},
				       {const_cast<char *>(kChunkEnd), sizeof(kChunkEnd)}}};
	msghdr message = {};
	message.msg_iov = viewer.is_chunked ? parts.data() : &parts[1];
	message.msg_iovlen = viewer.is_chunked ? parts.size() : 1;
	ssize_t sent;
	do
		sent = sendmsg(viewer.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	viewer.through = through;
	viewer.sent_bytes += sent < 0 ? 0 : static_cast<uint64_t>(sent);
	size_t skipped = sent < 0 ? 0 : static_cast<size_t>(sent);
	for (size_t i = 0; i < message.msg_iovlen; i++) {
		const iovec &part = message.msg_iov[i];
		const size_t gone = std::min(skipped, part.iov_len);
		skipped -= gone;
		viewer.rest.append(static_cast<const char *>(part.iov_base) + gone, part.iov_len - gone);
	}
	/* A connection that failed is JavaScript's to close. */
	viewer.is_full = !viewer.rest.empty();
}

std::optional<int64_t> send_time_ns(std::span<const uint8_t> frame)
{
	/* The shortest of some rounds counts, because other threads may use the CPU meanwhile. */
	constexpr int kRounds = 5, kFrames = 200;
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return std::nullopt;
	Viewer viewer = {0, ends[0], true, false, 0, 0, {}};
	std::array<char, 4096> received;
	std::optional<int64_t> least_ns;
	for (int round = 0; round < kRounds; round++) {
		const auto start = std::chrono::steady_clock::now();
		for (int i = 0; i < kFrames && !viewer.is_full; i++) {
			send_to(viewer, frame, 0);
			while (recv(ends[1], received.data(), received.size(), MSG_DONTWAIT) > 0)
				;
		}
		const int64_t frame_ns =
		    std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count() / kFrames;
		if (!viewer.is_full)
			least_ns = std::max<int64_t>(std::min(least_ns.value_or(frame_ns), frame_ns), 1);
	}
	close(ends[0]);
	close(ends[1]);
	return least_ns;
}
