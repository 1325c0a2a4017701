#include "player.h"

#include "event_frames.h"
#include "steady_clock.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

namespace
{

/* The most bytes that a track plays before the turn of the next one; fewer with `kViewersAtOnce` viewers or more. */
constexpr size_t kTurnBytesMax = 64 * 1024, kViewersAtOnce = 16;
/* Time that a caller spins for the mutex. */
constexpr int64_t kSpinNs = 50'000;

void send_unreported(const Track &track, Viewer &viewer)
{
	const auto &frames = track.unreported;
	for (size_t i = 0; i < frames.size() && !viewer.is_full;) {
		/* Frames that follow each other in memory are sent together. */
		const uint8_t *const start = frames[i].start;
		size_t size = 0;
		while (i < frames.size() && frames[i].start == start + size && size < kTurnBytesMax)
			size += frames[i++].size;
		send_to(viewer, {start, size}, track.played - (frames.size() - i));
	}
}

} // namespace

Player::Player(std::function<void()> wake) : on_wake(std::move(wake))
{
}

Player::~Player()
{
	stop();
	for (auto &[id, track] : tracks) {
		for (const Viewer &viewer : track.viewers)
			close(viewer.fd);
	}
}

void Player::start()
{
	thread = std::thread([this] { loop(); });
}

void Player::stop()
{
	if (!thread.joinable())
		return;
	{
		const Lock lock = enter();
		is_stopping = true;
		notify();
	}
	thread.join();
}

Player::Lock Player::enter()
{
	Lock lock(mutex, std::try_to_lock);
	if (lock)
		return lock;
	waiting++;
	/* Spinning comes first: the thread hardly ever sleeps when much is due, so a caller that waits for a wake-up
	 * would find the mutex taken again. */
	for (const int64_t end_ns = steady_ns() + kSpinNs; !lock.try_lock();) {
		pause_cpu();
		if (steady_ns() > end_ns) {
			lock.lock();
			break;
		}
	}
	waiting--;
	return lock;
}

Track *Player::find(TrackId id)
{
	const auto found = tracks.find(id);
	return found == tracks.end() ? nullptr : &found->second;
}

void Player::notify()
{
	is_changed = true;
	changed.notify();
}

void Player::set_turn(TrackId id, Track &track, std::optional<int64_t> turn_ns)
{
	if (track.turn_ns == turn_ns)
		return;
	if (track.turn_ns && turn_ns) {
		/* The node is moved, so that no frame allocates memory. */
		auto node = turns.extract({*track.turn_ns, id});
		node.value().first = *turn_ns;
		turns.insert(std::move(node));
	} else if (turn_ns) {
		turns.insert({*turn_ns, id});
	} else {
		turns.erase({*track.turn_ns, id});
	}
	track.turn_ns = turn_ns;
}

TrackId Player::add()
{
	const Lock lock = enter();
	tracks[++last_track] = {};
	return last_track;
}

void Player::remove(TrackId id)
{
	const Lock lock = enter();
	Track *track = find(id);
	if (!track)
		return;
	set_turn(id, *track, std::nullopt);
	for (const Viewer &viewer : track->viewers)
		close(viewer.fd);
	tracks.erase(id);
}

void Player::feed(TrackId id, std::span<const Frame> frames)
{
	const Lock lock = enter();
	Track *track = find(id);
	if (!track || frames.empty())
		return;
	auto &fed = track->frames;
	fed.erase(fed.begin(), fed.begin() + static_cast<ptrdiff_t>(track->next));
	track->next = 0;
	fed.insert(fed.end(), frames.begin(), frames.end());
	track->unreported.reserve(track->unreported.size() + fed.size());
	if (track->turn_ns)
		return;
	set_turn(id, *track, track->front().due_ns);
	if (turns.begin()->second == id)
		notify();
}

void Player::take_back(TrackId id)
{
	const Lock lock = enter();
	Track *track = find(id);
	if (!track)
		return;
	track->frames.clear();
	track->next = 0;
	set_turn(id, *track, std::nullopt);
}

size_t Player::take_lateness(TrackId id, std::span<double> to)
{
	const Lock lock = enter();
	Track *track = find(id);
	if (!track)
		return 0;
	auto &from = track->unreported;
	const size_t count = std::min(to.size(), from.size());
	for (size_t i = 0; i < count; i++)
		to[i] = static_cast<double>(from[i].lateness_ns);
	from.erase(from.begin(), from.begin() + static_cast<ptrdiff_t>(count));
	return count;
}

void Player::set_wakes(TrackId id, bool wakes)
{
	Lock lock = enter();
	Track *track = find(id);
	if (!track)
		return;
	track->wakes = wakes;
	/* JavaScript waits for frames that were played before this call, too. */
	if (!wakes || track->unreported.empty() || !mark_woken(id, *track))
		return;
	lock.unlock();
	on_wake();
}

bool Player::mark_woken(TrackId id, Track &track)
{
	if (track.is_woken)
		return false;
	track.is_woken = true;
	woken.push_back(id);
	return true;
}

size_t Player::take_woken(std::span<uint32_t> to)
{
	const Lock lock = enter();
	const size_t count = std::min(to.size(), woken.size());
	for (size_t i = 0; i < count; i++) {
		to[i] = woken[i];
		if (Track *track = find(woken[i]))
			track->is_woken = false;
	}
	woken.erase(woken.begin(), woken.begin() + static_cast<ptrdiff_t>(count));
	return count;
}

std::optional<uint32_t> Player::attach(TrackId id, int fd, bool is_chunked)
{
	Lock lock = enter();
	Track *track = find(id);
	if (!track)
		return std::nullopt;
	const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return std::nullopt;
	const uint32_t name = ++last_viewer;
	const uint64_t reported = track->played - track->unreported.size();
	Viewer &viewer = track->viewers.emplace_back(name, own, is_chunked, false, 0, reported, std::string());
	send_unreported(*track, viewer);
	const bool wakes = viewer.is_full && mark_woken(id, *track);
	lock.unlock();
	if (wakes)
		on_wake();
	return name;
}

size_t Player::sent_bytes(TrackId id, std::span<uint32_t> to, std::span<double> bytes)
{
	const Lock lock = enter();
	const Track *track = find(id);
	size_t count = 0;
	if (!track)
		return count;
	for (const Viewer &viewer : track->viewers) {
		if (viewer.is_full || count == std::min(to.size(), bytes.size()))
			continue;
		to[count] = viewer.id;
		bytes[count++] = static_cast<double>(viewer.sent_bytes);
	}
	return count;
}

std::optional<Viewer> Player::detach(TrackId id, uint32_t viewer_id)
{
	const Lock lock = enter();
	Track *track = find(id);
	if (!track)
		return std::nullopt;
	auto &viewers = track->viewers;
	const auto found = std::ranges::find(viewers, viewer_id, &Viewer::id);
	if (found == viewers.end())
		return std::nullopt;
	close(found->fd);
	Viewer viewer = std::move(*found);
	viewers.erase(found);
	return viewer;
}

std::optional<int64_t> Player::run(int64_t now_ns)
{
	Lock lock = enter();
	bool wakes = false;
	while (!turns.empty() && turns.begin()->first <= now_ns) {
		const TrackId id = turns.begin()->second;
		wakes |= play(id, tracks[id], now_ns);
	}
	const auto next = turns.empty() ? std::nullopt : std::optional(turns.begin()->first);
	lock.unlock();
	if (wakes)
		on_wake();
	return next;
}

bool Player::play(TrackId id, Track &track, std::optional<int64_t> given_ns)
{
	bool wakes = track.wakes;
	const size_t bytes_max = kTurnBytesMax / (1 + track.viewers.size() / kViewersAtOnce);
	size_t turn_bytes = 0;
	int64_t now_ns = given_ns.value_or(steady_ns());
	while (!track.is_empty() && track.front().due_ns <= now_ns && turn_bytes < bytes_max) {
		/* Frames that follow each other in memory are sent together. */
		uint8_t *const start = track.front().start;
		size_t size = 0;
		do {
			const Frame &frame = track.front();
			const int64_t lateness_ns = now_ns - frame.due_ns;
			write_lateness(frame.start + frame.lateness_at, lateness_ns);
			track.unreported.push_back({frame.start, frame.size, lateness_ns});
			track.played++;
			size += frame.size;
			track.next++;
		} while (!track.is_empty() && track.front().start == start + size && track.front().due_ns <= now_ns &&
			 turn_bytes + size < bytes_max);
		turn_bytes += size;
		for (Viewer &viewer : track.viewers) {
			if (viewer.is_full)
				continue;
			send_to(viewer, {start, size}, track.played);
			wakes |= viewer.is_full;
		}
		now_ns = given_ns.value_or(steady_ns());
	}
	if (track.is_empty())
		set_turn(id, track, std::nullopt);
	else
		/* An overdue track waits until the other due tracks had their turn. */
		set_turn(id, track, std::max(track.front().due_ns, now_ns));
	return wakes && mark_woken(id, track);
}
