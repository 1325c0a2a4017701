#pragma once

#include "lock.h"
#include "viewer.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/*
 * Sends frames when they are due, from a thread that does nothing else.
 *
 *   JavaScript   prepares frames ahead of their time, takes them back when a command changes the plan
 *   player       waits for the next one of all tracks, notes how late it is, and writes it to the sockets of the track
 *
 * A socket that has no room is left to JavaScript with the bytes that it still has to get. The memory of a frame is
 * JavaScript's own, which keeps it until the frame was played or taken back.
 */

struct Frame {
	int64_t due_ns;
	uint8_t *start;
	uint32_t size;
	/* Offset of the characters for the lateness. */
	uint32_t lateness_at;
};

/* A played frame that is not yet reported to JavaScript. */
struct Played {
	const uint8_t *start;
	uint32_t size;
	int64_t lateness_ns;
};

struct Track {
	/*
	 * Frames from `next` on are not played yet. The thread only takes frames, and always finds room in
	 * `unreported`: to allocate memory, it would have to wait while another thread allocates.
	 */
	std::vector<Frame> frames;
	size_t next;
	uint64_t played;
	std::vector<Played> unreported;
	std::vector<Viewer> viewers;
	/* Whether to wake JavaScript when frames are played, because it writes to some viewers itself. */
	bool wakes;
	/* JavaScript was woken, and has not asked for this track since. */
	bool is_woken;
	/* Time of the track's turn: when its next frame is due, or, if that is overdue, when the track was served
	 * last. */
	std::optional<int64_t> turn_ns;

	bool is_empty() const
	{
		return next == frames.size();
	}
	const Frame &front() const
	{
		return frames[next];
	}
};

using TrackId = uint32_t;

class Player
{
      public:
	/* `on_wake` is called in the player's thread. */
	explicit Player(std::function<void()> on_wake);
	~Player();
	Player(const Player &) = delete;
	Player &operator=(const Player &) = delete;

	/* Starts the thread; without it, only run() plays. */
	void start();
	/* Ends the thread. */
	void stop();

	TrackId add();
	void remove(TrackId id);
	/* Frames must be in the order of their deadlines, and due no earlier than those before them. */
	void feed(TrackId id, std::span<const Frame> frames);
	/* Takes back the frames that were not played. */
	void take_back(TrackId id);
	/* Reports frames that were played: moves their lateness to `to`, as many as fit; returns how many. */
	size_t take_lateness(TrackId id, std::span<double> to);
	void set_wakes(TrackId id, bool wakes);
	/* Moves the tracks that JavaScript was woken for to `to`, as many as fit; returns how many. */
	size_t take_woken(std::span<uint32_t> to);
	/*
	 * Adds a viewer, whose socket has got all reported frames, and gets those played since at once. Returns nothing
	 * if duplicating the descriptor fails.
	 */
	std::optional<uint32_t> attach(TrackId id, int fd, bool is_chunked);
	/*
	 * Moves the names of viewers to `to` and the bytes that their sockets took to `bytes`, as many as fit; returns
	 * how many. Viewers whose socket had no room, and which get no more frames, are left out.
	 */
	size_t sent_bytes(TrackId id, std::span<uint32_t> to, std::span<double> bytes);
	/* Removes a viewer, whose socket gets no more frames from here; returns the viewer's last state. */
	std::optional<Viewer> detach(TrackId id, uint32_t viewer);

	/* Plays the frames that are due at a time that the caller gives; returns when the next frame is due. */
	std::optional<int64_t> run(int64_t now_ns);

      private:
	Mutex mutex;
	Condition changed;
	/* Callers that wait for the mutex: the thread lets them in between two tracks. */
	std::atomic<int> waiting = 0;
	/* Tracks or their turns have changed, so the thread may have to wait for another frame. */
	std::atomic<bool> is_changed = false;
	std::atomic<bool> is_stopping = false;
	std::function<void()> on_wake;
	std::thread thread;
	std::map<TrackId, Track> tracks;
	std::set<std::pair<int64_t, TrackId>> turns;
	std::vector<TrackId> woken;
	TrackId last_track = 0;
	uint32_t last_viewer = 0;
	/* How long before a deadline the thread wakes up, because its sleeps last longer than it asked for. */
	int64_t awake_ns = 20'000;

	using Lock = std::unique_lock<Mutex>;
	Lock enter();
	Track *find(TrackId id);
	void set_turn(TrackId id, Track &track, std::optional<int64_t> turn_ns);
	void notify();
	/* Runs in the player's thread: player_thread.cc. */
	void loop();
	/* Returns how long the thread slept. */
	int64_t wait_until(Lock &lock, int64_t turn_ns);
	void learn(int64_t over_ns);
	/* Returns whether JavaScript must be woken: false if the track has woken it already. */
	bool mark_woken(TrackId id, Track &track);
	/*
	 * Plays frames of a track that are due, by a time that the caller gives or by the steady clock. Returns whether
	 * JavaScript has to know.
	 */
	bool play(TrackId id, Track &track, std::optional<int64_t> given_ns);
};
