#include "match/alignment.h"

#include <string.h>

#include "plan/plan.h"

/* Likelihoods of what a call of another build does, before any call was seen, and the weight of that estimate. */
#define EXTRA_FIRST 0.001f
#define GAP_FIRST 0.0002f
#define GAP_MAX 0.003f
#define EDITS_WEIGHT 10
#define OTHER_SIZE_FIRST 0.2f
#define OTHER_SIZE_MAX 0.6f
#define SIZES_WEIGHT 2
/* Most gaps are short, some are long: a mixture of two geometric distributions. */
#define NEAR_GAPS 0.7f
#define NEAR_DECAY 0.5f
#define FAR_DECAY 0.95f
/*
 * Likelihood that an event that was passed over comes later, because its call was moved; it falls with each event
 * since.
 */
#define MOVED 0.05f
#define MOVED_DECAY 0.97f
#define OTHER_ROLE 0.2f
/*
 * A size that varies from run to run becomes another of the slot's sizes, or differs by some bytes or by a share of
 * itself, about as much as earlier sizes did. A size that is not near is very unlikely.
 */
#define OF_SLOT_FIRST 0.4f
#define OF_SLOT_MAX 0.9f
#define BY_BYTES_FIRST 0.5f
#define BYTES 12
#define SHARE_FIRST 0.03f
#define SHARE_WEIGHT 8
#define NEAR 0.12f
#define BYTES_NEAR 8
#define NOT_NEAR 0.0001f
#define NEAR_SIZES_MAX 16
#define PI 3.14159265f
/* A new call has a size of the slot, or any: of each order of magnitude with the same likelihood. */
#define NEW_OF_SLOT 0.01f
#define ANY_SIZE 0.05f
/* A way to match the calls is followed until another one is likelier by this factor. */
#define CLEARLY 4
/* Ways that are less likely than the likeliest by this factor are given up. */
#define GIVEN_UP 1e-8f
/* Upper bound of the likelihood that an event is made with another size. */
#define OTHER_LIKENESS_MAX 0.1f

void alignment_begin(struct alignment *alignment)
{
	*alignment = (struct alignment){0};
	alignment->likelihood[0] = 1;
}

static bool is_used(const struct alignment_call *call, uint32_t place)
{
	const uint32_t at = call->slot->first + place;

	return call->used[at / 64] >> at % 64 & 1;
}

static uint32_t event_at(const struct alignment_call *call, uint32_t place)
{
	return call->streams->order[call->slot->first + place];
}

static float estimate(float first, uint32_t weight, uint32_t seen, uint32_t of)
{
	return (first * weight + seen) / (weight + of);
}

/* Likelihoods that a call is made as planned, is new, comes after a near or a far gap, or has another size. */
struct model {
	float matched, extra, near, far;
	float other_size, of_slot, by_bytes, by_share, share; /* the share by which sizes differ */
};

static struct model model_of(const struct alignment *alignment)
{
	const uint32_t matched = alignment->same + alignment->other;
	const float extra = estimate(EXTRA_FIRST, EDITS_WEIGHT, alignment->extra, matched + alignment->extra);
	const float gaps = estimate(GAP_FIRST, EDITS_WEIGHT, alignment->gaps, matched);
	const float gap = gaps < GAP_MAX ? gaps : GAP_MAX;
	const float other_size = estimate(OTHER_SIZE_FIRST, SIZES_WEIGHT, alignment->other, matched);
	const float of_slot = estimate(OF_SLOT_FIRST, SIZES_WEIGHT, alignment->of_slot, alignment->near);
	const float by_bytes = estimate(BY_BYTES_FIRST, SIZES_WEIGHT, alignment->by_bytes, alignment->near);

	return (struct model){
	    .matched = (1 - extra) * (1 - gap),
	    .extra = extra,
	    .near = gap * NEAR_GAPS * (1 - NEAR_DECAY),
	    .far = gap * (1 - NEAR_GAPS) * (1 - FAR_DECAY),
	    .other_size = other_size < OTHER_SIZE_MAX ? other_size : OTHER_SIZE_MAX,
	    .of_slot = of_slot < OF_SLOT_MAX ? of_slot : OF_SLOT_MAX,
	    .by_bytes = (1 - of_slot) * by_bytes,
	    .by_share = (1 - of_slot) * (1 - by_bytes),
	    .share = (SHARE_FIRST * SHARE_WEIGHT + alignment->near_share) / (SHARE_WEIGHT + alignment->near),
	};
}

static float share_of(float bytes, float planned, float observed)
{
	return 2 * bytes / (planned + observed + 2);
}

/* Density of a distribution of the given width with heavy tails. */
static float density(float difference, float width)
{
	const float distance = 1 + difference / width * (difference / width);

	return 2 / (PI * width * distance * distance);
}

/* The events of the band, and the likelihood of the best way that leads to each of them. */
struct band {
	uint32_t base, first, count; /* no way leads to an event before the first */
	uint32_t event[PLACES], size[PLACES];
	bool is_used[PLACES];
	float arrival[PLACES];
	bool has_size;    /* one of the events has the call's size */
	float near_sizes; /* number of different sizes that are near that one; 0: not counted */
};

static void load(struct band *band, const struct alignment *alignment, const struct alignment_call *call)
{
	const uint32_t left = call->slot->count - alignment->base;
	uint32_t i = 0;

	band->base = alignment->base;
	band->count = left < PLACES ? left : PLACES;
	band->has_size = false;
	band->near_sizes = 0;
	while (i < band->count && alignment->likelihood[i] == 0 && is_used(call, band->base + i))
		i++;
	band->first = i;
	for (; i < band->count; i++) {
		band->event[i] = event_at(call, band->base + i);
		band->size[i] = call->streams->plan->events[band->event[i]].size;
		band->is_used[i] = is_used(call, band->base + i);
		band->has_size |= band->size[i] == call->size;
	}
}

static float larger(float a, float b)
{
	return a > b ? a : b;
}

/* Computes the likelihood of arriving at each event. Used events do not count as a gap. */
static void arrive(struct band *band, const float *before, const struct model *model)
{
	float direct = 0, near = 0, far = 0, moved = 0;

	for (uint32_t i = band->first; i < band->count; i++) {
		const bool is_first = i == band->first;

		if (!is_first && band->is_used[i - 1]) {
			direct = larger(before[i], direct);
		} else {
			direct = before[i];
			near = larger(near * NEAR_DECAY, is_first ? 0 : before[i - 1] * model->near);
			far = larger(far * FAR_DECAY, is_first ? 0 : before[i - 1] * model->far);
		}
		band->arrival[i] = larger(direct * model->matched, larger(near, far));
	}
	for (uint32_t i = band->count; i-- > band->first;) {
		moved = larger(moved * MOVED_DECAY, before[i + 1] * MOVED);
		if (!band->is_used[i])
			band->arrival[i] = larger(band->arrival[i], moved);
	}
}

static float bytes_between(float planned, float observed)
{
	return planned > observed ? planned - observed : observed - planned;
}

static bool is_near(float planned, float observed)
{
	const float bytes = bytes_between(planned, observed);

	return bytes <= BYTES_NEAR || share_of(bytes, planned, observed) < NEAR;
}

static void count_near_sizes(struct band *band, const struct alignment_call *call)
{
	uint32_t found[NEAR_SIZES_MAX], count = 0;

	for (uint32_t i = band->first; i < band->count && count < NEAR_SIZES_MAX; i++) {
		uint32_t at = 0;

		if (!is_near(band->size[i], call->size))
			continue;
		found[count] = band->size[i];
		while (found[at] != band->size[i])
			at++;
		count += at == count;
	}
	band->near_sizes = count > 1 ? count : 2;
}

/* Returns the likelihood that an event of the planned size is made with the call's, which differs. */
static float other_size(struct band *band, float planned, const struct alignment_call *call, const struct model *model)
{
	const float bytes = bytes_between(planned, call->size);

	if (band->near_sizes == 0)
		count_near_sizes(band, call);
	const float of_slot = band->has_size ? model->of_slot : 0;
	if (!is_near(planned, call->size))
		return NOT_NEAR * of_slot / call->slot->size_count;
	return model->by_bytes * density(bytes, BYTES) + model->by_share * density(bytes, 1 + model->share * planned) +
	       of_slot / (band->near_sizes - 1);
}

/* Returns the likelihood that the call is the event, by size and role. */
static float likeness(struct band *band, uint32_t i, const struct alignment_call *call, const struct model *model)
{
	const uint32_t event = band->event[i];
	float by_role = 1;

	if (streams_is_for_others(call->streams, event, call->own))
		return 0;
	if (call->own != NONE && call->streams->stream_of_event[event] != call->own)
		by_role = OTHER_ROLE;
	if (call->size == SIZE_UNKNOWN || band->size[i] == SIZE_UNKNOWN)
		return by_role;
	if (band->size[i] == call->size)
		return by_role * (1 - model->other_size);
	return by_role * model->other_size * other_size(band, band->size[i], call, model);
}

static float new_size(const struct band *band, const struct alignment_call *call)
{
	if (call->size == SIZE_UNKNOWN)
		return 1;
	return ANY_SIZE / (call->size + 1.0f) + (band->has_size ? NEW_OF_SLOT / call->slot->size_count : 0);
}

/* Moves the band so that it has PLACES_BEHIND places before the expected one. */
static void move_band(struct alignment *alignment)
{
	if (alignment->next - alignment->base <= PLACES_BEHIND)
		return;
	const uint32_t by = alignment->next - alignment->base - PLACES_BEHIND;

	memmove(alignment->likelihood, alignment->likelihood + by, (PLACES + 1 - by) * sizeof(float));
	memset(alignment->likelihood + PLACES + 1 - by, 0, by * sizeof(float));
	alignment->base += by;
}

void alignment_set(struct alignment *alignment, uint32_t place)
{
	alignment->next = place + 1;
	alignment->base = alignment->next > PLACES_BEHIND ? alignment->next - PLACES_BEHIND : 0;
	memset(alignment->likelihood, 0, sizeof(alignment->likelihood));
	alignment->likelihood[alignment->next - alignment->base] = 1;
}

/* Counts the outcome of a call. `expected` and `i`: the expected event, and the call's own, or the band's count. */
static void note(struct alignment *alignment, const struct band *band, const struct alignment_call *call,
		 uint32_t expected, uint32_t i)
{
	if (i == band->count) {
		alignment->extra++;
		return;
	}
	alignment->gaps += i > expected;
	const uint32_t planned = band->size[i];
	if (call->size == SIZE_UNKNOWN || planned == SIZE_UNKNOWN || planned == call->size) {
		alignment->same++;
		return;
	}
	const float bytes = bytes_between(planned, call->size);
	alignment->other++;
	if (is_near(planned, call->size)) {
		alignment->near++;
		alignment->by_bytes += bytes <= 2 * BYTES;
		alignment->of_slot += band->has_size;
		alignment->near_share += share_of(bytes, planned, call->size);
	}
}

/* The decision on a call, and the place that is expected next, as an index in the band. */
struct choice {
	float likelihood;
	bool is_match;
	uint32_t next;
};

static struct choice choose(float matches, float stays, uint32_t next_if_match, uint32_t next_if_new)
{
	const bool is_match = matches > stays;

	return (struct choice){is_match ? matches : stays, is_match, is_match ? next_if_match : next_if_new};
}

/*
 * Updates the likelihoods with the call. Keeps to the way that was followed until another is clearly likelier;
 * `expected`: the event that this way expects.
 */
static struct choice step(struct alignment *alignment, struct band *band, const struct alignment_call *call,
			  const struct model *model, uint32_t expected)
{
	const uint32_t stays_at = alignment->next - band->base;
	const float is_new = model->extra * new_size(band, call);
	const float as_expected =
	    expected < band->count ? band->arrival[expected] * likeness(band, expected, call, model) : 0;
	const struct choice kept =
	    choose(as_expected, alignment->likelihood[stays_at] * is_new, expected + 1, stays_at);
	struct choice best = kept;
	float matches = 0;

	for (uint32_t i = band->first; i <= band->count; i++) {
		const struct choice here = choose(matches, alignment->likelihood[i] * is_new, i, i);
		const float least = best.likelihood * GIVEN_UP;

		alignment->likelihood[i] = here.likelihood;
		if (here.likelihood > best.likelihood)
			best = here;
		matches = 0;
		if (i < band->count && (band->arrival[i] * OTHER_LIKENESS_MAX > least ||
					(band->size[i] == call->size && band->arrival[i] > least)))
			matches = band->arrival[i] * likeness(band, i, call, model);
	}
	for (uint32_t i = band->first; i <= band->count; i++)
		alignment->likelihood[i] = alignment->likelihood[i] > best.likelihood * GIVEN_UP
					       ? alignment->likelihood[i] / best.likelihood
					       : 0;
	return kept.likelihood * CLEARLY < best.likelihood ? best : kept;
}

uint32_t alignment_find(struct alignment *alignment, const struct alignment_call *call)
{
	const struct model model = model_of(alignment);
	struct band band;

	load(&band, alignment, call);
	arrive(&band, alignment->likelihood, &model);
	uint32_t expected = alignment->next - band.base;
	while (expected < band.count && band.is_used[expected])
		expected++;
	const struct choice choice = step(alignment, &band, call, &model, expected);
	/* The event of the likeliest way may have been given to another call, in error. */
	const bool is_free = choice.is_match && !band.is_used[choice.next - 1];
	if (!choice.is_match || is_free)
		note(alignment, &band, call, expected, choice.is_match ? choice.next - 1 : band.count);
	alignment->next = band.base + choice.next;
	move_band(alignment);
	return is_free ? band.base + choice.next - 1 : call->slot->count;
}
