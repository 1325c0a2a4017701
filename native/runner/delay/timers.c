#include "delay/timers.h"

#include <errno.h>
#include <sys/prctl.h>

#include "delay/clock.h"

/* Spinning for more calls would burn a CPU that the build needs. */
#define SPIN_FOR_AT_MOST 2

static void spin_until(struct timers *timers, uint64_t deadline_ns, uint32_t version)
{
	while (clock_ns() < deadline_ns && atomic_load_explicit(&timers->version, memory_order_relaxed) == version)
#if defined(__x86_64__)
		__builtin_ia32_pause();
#else
		__asm__ volatile("yield");
#endif
}

/* Waits for the deadline, or for a change of the heap. The caller holds the lock. */
static void wait_for(struct timers *timers, uint64_t deadline_ns, uint64_t now)
{
	const uint64_t spin_ns =
	    heap_due_before(&timers->heap, deadline_ns + timers->spin_ns, SPIN_FOR_AT_MOST + 1) > SPIN_FOR_AT_MOST
		? 0
		: timers->spin_ns;

	if (deadline_ns - now > spin_ns) {
		const struct timespec until = clock_timespec(deadline_ns - spin_ns);
		pthread_cond_timedwait(&timers->changed, &timers->lock, &until);
		return;
	}
	const uint32_t version = atomic_load(&timers->version);
	pthread_mutex_unlock(&timers->lock);
	spin_until(timers, deadline_ns, version);
	pthread_mutex_lock(&timers->lock);
}

static void *timers_main(void *argument)
{
	struct timers *timers = argument;

	/*
	 * The slack is set only for this thread: the build would inherit it, and its sleeps would be more exact than in
	 * production.
	 */
	prctl(PR_SET_TIMERSLACK, 1);
	prctl(PR_SET_NAME, "kreplay-timers");
	pthread_mutex_lock(&timers->lock);
	for (;;) {
		struct call *call = heap_first(&timers->heap);

		if (!call) {
			if (timers->is_stopping)
				break;
			pthread_cond_wait(&timers->changed, &timers->lock);
			continue;
		}
		const uint64_t now = clock_ns();
		if (now < call->deadline_ns && !timers->is_hurried && !timers->is_stopping) {
			wait_for(timers, call->deadline_ns, now);
			continue;
		}
		heap_remove(&timers->heap, call);
		pthread_mutex_unlock(&timers->lock);
		timers->due(timers->context, call);
		pthread_mutex_lock(&timers->lock);
	}
	pthread_mutex_unlock(&timers->lock);
	return NULL;
}

bool timers_start(struct timers *timers, uint64_t spin_ns, void (*due)(void *context, struct call *call), void *context)
{
	pthread_condattr_t attributes;

	*timers = (struct timers){.spin_ns = spin_ns, .due = due, .context = context};
	pthread_mutex_init(&timers->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&timers->changed, &attributes);
	errno = pthread_create(&timers->thread, NULL, timers_main, timers);
	return errno == 0;
}

/* The caller holds the lock. */
static void changed(struct timers *timers)
{
	atomic_fetch_add(&timers->version, 1);
	pthread_cond_signal(&timers->changed);
}

bool timers_push(struct timers *timers, struct call *call)
{
	pthread_mutex_lock(&timers->lock);
	const bool is_pushed = heap_push(&timers->heap, call);
	if (is_pushed && heap_first(&timers->heap) == call)
		changed(timers);
	pthread_mutex_unlock(&timers->lock);
	return is_pushed;
}

bool timers_take(struct timers *timers, struct call *call, uint64_t id)
{
	pthread_mutex_lock(&timers->lock);
	const bool is_held = call->heap_index != NOT_IN_HEAP && call->id == id;
	if (is_held)
		heap_remove(&timers->heap, call);
	pthread_mutex_unlock(&timers->lock);
	return is_held;
}

void timers_hurry(struct timers *timers, bool is_hurried)
{
	pthread_mutex_lock(&timers->lock);
	timers->is_hurried = is_hurried;
	changed(timers);
	pthread_mutex_unlock(&timers->lock);
}

void timers_stop(struct timers *timers)
{
	pthread_mutex_lock(&timers->lock);
	timers->is_stopping = true;
	changed(timers);
	pthread_mutex_unlock(&timers->lock);
	pthread_join(timers->thread, NULL);
	heap_free(&timers->heap);
}
