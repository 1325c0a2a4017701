#include "match/sizes.h"

#include <math.h>

#include "plan/plan.h"

#define COST_OTHER_SIZE 0.25
/* Sizes that differ by less may be equal but for what varies from run to run. */
#define NEAR_SIZE_LOG2 0.2
/* Sizes vary if a smaller share of the last calls had exactly the size of its event. */
#define EXACT_SHARE_MIN 0.75
#define EXACT_CALLS_MIN 8
#define SIZES_HISTORY 64
/* Number of events before and after one that show which sizes are common there. */
#define AROUND 16
/* Logarithm of the odds that calls are missing, rather than that a size varies, before any call was seen. */
#define MISSING_LOG_ODDS (-6.0)
/* What a call with a near size where its event was expected says, or one that an earlier call had passed over. */
#define VARIED_LOG_ODDS (-4.5)
#define EVIDENCE_MAX 12.0

bool sizes_vary(const struct sizes *sizes)
{
	const uint64_t calls = sizes->calls < SIZES_HISTORY ? sizes->calls : SIZES_HISTORY;

	return calls >= EXACT_CALLS_MIN && __builtin_popcountll(sizes->exact_bits) < EXACT_SHARE_MIN * calls;
}

static double distance(uint32_t a, uint32_t b)
{
	return fabs(log2((a + 1.0) / (b + 1.0)));
}

double sizes_cost(uint32_t planned, uint32_t observed, bool vary)
{
	if (planned == observed)
		return 0;
	if (planned == SIZE_UNKNOWN || observed == SIZE_UNKNOWN)
		return COST_OTHER_SIZE;
	const double difference = distance(planned, observed);

	return vary && difference < NEAR_SIZE_LOG2 ? 0 : COST_OTHER_SIZE + difference;
}

/* The same as a distance below NEAR_SIZE_LOG2, by integers: it is computed for many events. */
static bool is_near(uint32_t a, uint32_t b)
{
	const uint64_t small = (a < b ? a : b) + 1ull, large = (a < b ? b : a) + 1ull;

	return large * 1000 < small * 1149;
}

static uint32_t size_at(const struct streams *streams, const struct slot *slot, uint32_t place)
{
	return streams->plan->events[streams->order[slot->first + place]].size;
}

/* Returns the share that events of exactly this size have among those of near sizes around a place. */
static double share_around(const struct streams *streams, const struct slot *slot, uint32_t place, uint32_t size)
{
	const uint32_t first = place > AROUND ? place - AROUND : 0;
	const uint32_t end = slot->count - place > AROUND ? place + AROUND + 1 : slot->count;
	uint32_t near = 0, same = 0;

	for (uint32_t at = first; at < end; at++) {
		const uint32_t other = size_at(streams, slot, at);

		near += is_near(other, size);
		same += other == size;
	}
	return near == 0 ? 0 : (double)same / near;
}

bool sizes_favour_ahead(const struct sizes *sizes, const struct streams *streams, const struct slot *slot,
			uint32_t head, uint32_t ahead, uint32_t observed)
{
	if (observed == SIZE_UNKNOWN || !is_near(size_at(streams, slot, head), observed))
		return true;
	const double share = share_around(streams, slot, head, observed);
	const double by_chance = 1 - pow(1 - share, ahead - head);

	return MISSING_LOG_ODDS + sizes->evidence - log(by_chance > 0 ? by_chance : 1) > 0;
}

static void add(struct sizes *sizes, double evidence)
{
	sizes->evidence = fmin(fmax(sizes->evidence + evidence, -EVIDENCE_MAX), EVIDENCE_MAX);
}

void sizes_note(struct sizes *sizes, const struct streams *streams, const struct slot *slot, uint32_t place,
		uint32_t observed, bool is_next, bool is_back)
{
	const uint32_t planned = size_at(streams, slot, place);
	const bool is_exact = planned == observed;

	sizes->calls++;
	sizes->exact_bits = sizes->exact_bits << 1 | is_exact;
	if (observed == SIZE_UNKNOWN || planned == SIZE_UNKNOWN || !is_next)
		return;
	if (is_back || (!is_exact && is_near(planned, observed)))
		add(sizes, VARIED_LOG_ODDS);
	else if (is_exact)
		add(sizes, -log(share_around(streams, slot, place, observed)));
}

void sizes_note_extra(struct sizes *sizes)
{
	sizes->calls++;
	sizes->exact_bits <<= 1;
}
