#include "player.h"
#include "priority.h"
#include "steady_clock.h"

#include <algorithm>
#include <sys/prctl.h>

/* The thread of a player: when it sleeps, and when it leaves its CPU or the mutex to other threads. */

namespace
{

/*
 * Limits of the time that the thread is awake before a deadline, absolute and as one part in `kAwakeShare` of its wait.
 * A sleep that overruns by more waits for a CPU that other threads use, so waking up earlier would not help; and a
 * thread that takes more than its share of a CPU waits for the others when it wakes up.
 */
constexpr int64_t kAwakeNsMax = 40'000;
constexpr int64_t kAwakeShare = 7;
/*
 * With a real-time priority the thread keeps all others from its CPU, which may be the only one. The thread may work
 * for four times as long as it sleeps, and rests for `kRestNs` when it has worked for `kWorkNsMax` more than that.
 */
constexpr int64_t kWorkPerSleep = 4, kWorkNsMax = 4'000'000, kRestNs = 1'000'000;
/*
 * The thread sleeps for at least this long once it has nothing to send: at more than 20,000 frames a second, a wake-up
 * for each would cost more than sending it, so frames that become due meanwhile are sent together.
 */
constexpr int64_t kApartNs = 50'000;
/* Turns of an idle loop in which a caller that spins for the mutex gets it: some microseconds. */
constexpr int kLetInTurns = 200;
/* Time that the thread sleeps for a caller that has stopped spinning, and the least time between two such sleeps. */
constexpr int64_t kLetInNs = 50'000, kLetInPauseNs = 1'000'000;
/* Steps that change `awake_ns` after each sleep, so that three of four sleeps end in time. */
constexpr int64_t kLongerNs = 750, kShorterNs = 250;

} // namespace

void Player::loop()
{
	const bool is_realtime = raise_priority();
	/* The smallest timer slack: 0 would select the default, 50 us. */
	prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0);
	prctl(PR_SET_NAME, "kreplay-clock", 0, 0, 0);
	Lock lock(mutex);
	/* How much longer the thread has worked than it may, and when it began to work. */
	int64_t excess_ns = 0, awake_since_ns = steady_ns(), let_in_ns = 0;
	const auto slept = [&](int64_t sleep_ns) {
		const int64_t now_ns = steady_ns();
		const int64_t worked_ns = std::max<int64_t>(now_ns - awake_since_ns - sleep_ns, 0);
		excess_ns = std::max<int64_t>(excess_ns + worked_ns - kWorkPerSleep * sleep_ns, 0);
		awake_since_ns = now_ns;
	};
	const auto rest = [&](int64_t rest_ns) {
		lock.unlock();
		const int64_t start_ns = steady_ns();
		std::this_thread::sleep_for(std::chrono::nanoseconds(rest_ns));
		slept(steady_ns() - start_ns);
		lock.lock();
	};
	while (!is_stopping) {
		is_changed = false;
		if (turns.empty()) {
			const int64_t start_ns = steady_ns();
			while (!is_changed)
				changed.wait(mutex);
			slept(steady_ns() - start_ns);
			continue;
		}
		const auto [turn_ns, id] = *turns.begin();
		const int64_t now_ns = steady_ns();
		if (is_realtime && excess_ns + now_ns - awake_since_ns > kWorkNsMax) {
			rest(kRestNs);
		} else if (turn_ns > now_ns) {
			slept(wait_until(lock, std::max(turn_ns, awake_since_ns + kApartNs)));
		} else if (play(id, tracks[id], std::nullopt)) {
			lock.unlock();
			on_wake();
			lock.lock();
		}
		if (waiting > 0) {
			lock.unlock();
			/* The wait is limited, because the caller itself may be waiting for a CPU. */
			for (int i = 0; i < kLetInTurns && waiting > 0; i++)
				pause_cpu();
			lock.lock();
			if (waiting > 0 && steady_ns() - let_in_ns > kLetInPauseNs) {
				rest(kLetInNs);
				let_in_ns = steady_ns();
			}
		}
	}
}

int64_t Player::wait_until(Lock &lock, int64_t turn_ns)
{
	const int64_t start_ns = steady_ns();
	const int64_t early_ns = std::min(awake_ns, (turn_ns - start_ns) / kAwakeShare);
	const int64_t asked_ns = turn_ns - early_ns;
	while (!is_changed) {
		if (changed.wait_until(mutex, asked_ns))
			break;
	}
	const int64_t woke_ns = steady_ns();
	if (is_changed)
		return woke_ns - start_ns;
	learn(woke_ns - asked_ns);
	lock.unlock();
	while (steady_ns() < turn_ns && !is_changed)
		;
	lock.lock();
	return woke_ns - start_ns;
}

void Player::learn(int64_t over_ns)
{
	if (over_ns <= awake_ns)
		awake_ns -= std::min(kShorterNs, awake_ns);
	else if (over_ns <= kAwakeNsMax)
		awake_ns += kLongerNs;
}
