/*
 * Uses a player from several threads at once, as ThreadSanitizer watches:
 *
 *   stress SECONDS        # prints the number of frames that were received, or what is wrong
 *
 * Each track has a thread that feeds it, takes frames back, and gives its viewer's socket to the player and takes it
 * back; another thread reads that socket. Each frame is a number, and what a viewer gets must be the frames in order,
 * each once, up to the last one that was played.
 */
#include "../../../native/clock/player.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <sys/socket.h>
#include <unistd.h>

namespace
{

constexpr int kTracks = 6;
constexpr size_t kFrameSize = 64;
constexpr size_t kNumberAt = 20;

int64_t now_ns()
{
	using namespace std::chrono;
	return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const char *what, uint64_t expected, uint64_t found)
{
	fprintf(stderr, "%s: expected %lu, found %lu\n", what, expected, found);
	exit(1);
}

using Bytes = std::array<uint8_t, kFrameSize>;

/* A session that feeds frames with numbers without gaps: one that was taken back is fed again. */
struct Session {
	Player &player;
	int socket;
	std::mt19937 random;
	TrackId track = 0;
	std::deque<std::unique_ptr<Bytes>> memory = {};
	uint64_t fed = 0, played = 0, sent = 0;
	std::optional<uint32_t> viewer = {};

	unsigned upto(unsigned most)
	{
		return std::uniform_int_distribution<unsigned>(0, most)(random);
	}

	void count_played()
	{
		std::array<double, 128> lateness;
		while (size_t count = player.take_lateness(track, lateness)) {
			played += count;
			memory.erase(memory.begin(), memory.begin() + static_cast<ptrdiff_t>(count));
			for (size_t i = 0; i < count; i++) {
				if (lateness[i] < 0)
					fail("a frame was played early", 0, 1);
			}
		}
	}

	void send_all(const void *bytes, size_t size)
	{
		for (size_t done = 0; done < size;) {
			const ssize_t count = send(socket, static_cast<const char *>(bytes) + done, size - done, 0);
			if (count <= 0)
				fail("send", size, done);
			done += static_cast<size_t>(count);
		}
	}

	/* Returns the socket to this thread, with everything that was played written to it. */
	void take_viewer()
	{
		if (!viewer)
			return;
		const auto left = player.detach(track, *viewer);
		viewer.reset();
		count_played();
		sent = left->through;
		send_all(left->rest.data(), left->rest.size());
	}

	void take_back()
	{
		player.take_back(track);
		take_viewer();
		count_played();
		memory.clear();
		fed = played;
	}

	/* What was played while no player wrote to the socket has to be made up for. */
	void make_up()
	{
		for (; sent < played; sent++) {
			Bytes bytes;
			bytes.fill('.');
			memcpy(bytes.data() + kNumberAt, &sent, sizeof(sent));
			send_all(bytes.data(), bytes.size());
		}
	}

	/* The player may play on between any two of these steps. */
	void feed()
	{
		if (!viewer) {
			count_played();
			make_up();
			viewer = player.attach(track, socket, false);
		}
		std::vector<Frame> frames;
		int64_t due_ns = now_ns() + upto(300'000);
		for (unsigned i = upto(40); i > 0; i--) {
			auto bytes = std::make_unique<Bytes>();
			bytes->fill('.');
			memcpy(bytes->data() + kNumberAt, &fed, sizeof(fed));
			fed++;
			due_ns += upto(20'000);
			frames.push_back({due_ns, bytes->data(), kFrameSize, 0});
			memory.push_back(std::move(bytes));
		}
		player.feed(track, frames);
	}
};

/* Returns how many frames were played. */
uint64_t play(Session session, const std::atomic<bool> &is_over)
{
	session.track = session.player.add();
	while (!is_over) {
		switch (session.upto(5)) {
		case 0:
			session.take_back();
			break;
		case 1:
			session.take_viewer();
			break;
		case 2:
			session.player.set_wakes(session.track, session.upto(1) == 1);
			break;
		default:
			session.feed();
		}
		usleep(session.upto(400));
		session.count_played();
	}
	session.take_back();
	session.make_up();
	session.player.remove(session.track);
	shutdown(session.socket, SHUT_WR);
	return session.sent;
}

uint64_t read_frames(int socket, unsigned seed)
{
	std::mt19937 random(seed);
	uint64_t received = 0;
	std::string bytes;
	std::array<char, 4096> part;
	for (;;) {
		const ssize_t length = recv(socket, part.data(), part.size(), 0);
		if (length <= 0)
			return received;
		bytes.append(part.data(), static_cast<size_t>(length));
		for (; bytes.size() >= kFrameSize; bytes.erase(0, kFrameSize)) {
			uint64_t number;
			memcpy(&number, bytes.data() + kNumberAt, sizeof(number));
			if (number != received++)
				fail("a frame is missing or comes twice", received - 1, number);
		}
		/* Now and then its socket is full. */
		if (random() % 64 == 0)
			usleep(20'000);
	}
}

} // namespace

int main(int, char **arguments)
{
	std::atomic<int> wakes = 0;
	std::atomic<bool> is_over = false;
	std::atomic<uint64_t> sent = 0, received = 0;
	Player player([&wakes] { wakes++; });
	player.start();
	std::vector<std::thread> threads;
	for (int track = 0; track < kTracks; track++) {
		std::array<int, 2> ends;
		const int room = 4096;
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()))
			return 1;
		setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
		const unsigned seed = static_cast<unsigned>(track);
		threads.emplace_back([&, end = ends[0], seed] {
			sent += play({player, end, std::mt19937(seed)}, is_over);
		});
		threads.emplace_back([&, end = ends[1], seed] { received += read_frames(end, seed); });
	}
	threads.emplace_back([&] {
		std::array<uint32_t, 4> woken;
		while (!is_over) {
			player.take_woken(woken);
			usleep(1000);
		}
	});
	std::this_thread::sleep_for(std::chrono::seconds(atoi(arguments[1])));
	is_over = true;
	for (std::thread &thread : threads)
		thread.join();
	player.stop();
	if (sent != received)
		fail("frames that were played and not received", sent, received);
	printf("%lu frames, %d wakes\n", received.load(), wakes.load());
	return 0;
}
