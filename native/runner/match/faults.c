#include "match/faults.h"

#include <stdlib.h>

bool faults_make(struct faults *faults, const struct plan *plan)
{
	uint8_t *ops = calloc(plan->header->event_count + 1ul, sizeof(*ops));

	if (!ops)
		return false;
	for (uint32_t i = 0; i < plan->header->stream_count; i++) {
		const struct plan_stream *stream = &plan->streams[i];

		for (uint32_t j = stream->first_slot; j < stream->first_slot + stream->slot_count; j++) {
			const struct plan_slot *slot = &plan->slots[j];

			for (uint32_t event = 0; event < slot->event_count; event++)
				ops[slot->first_event + event] = stream->op;
		}
	}
	*faults = (struct faults){plan, ops};
	return true;
}

void faults_fit(const struct faults *faults, struct match *match, unsigned op)
{
	if (match->event == NONE || (!match->error && !match->is_short))
		return;
	const bool is_of_own_call = faults->plan->events[match->event].flags & EVENT_FLAG_OWN_CALL;

	if (is_of_own_call && faults->op_of_event[match->event] != op) {
		match->error = 0;
		match->is_short = false;
	}
	if (op == OP_SYNC)
		match->error = 0;
}
