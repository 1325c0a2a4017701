#include "run/seen_ops.h"

#include "seccomp/syscalls.h"

static bool event_has_effect(const struct plan_event *event, uint64_t threshold_ns)
{
	return event->target_ns >= threshold_ns || event->error || event->flags & EVENT_FLAG_SHORT_WRITE;
}

static bool has_effect(const struct plan *plan, const struct plan_stream *stream, uint64_t threshold_ns)
{
	for (uint32_t i = 0; i < stream->slot_count; i++) {
		const struct plan_slot *slot = &plan->slots[stream->first_slot + i];

		for (uint32_t j = 0; j < slot->event_count; j++)
			if (event_has_effect(&plan->events[slot->first_event + j], threshold_ns))
				return true;
	}
	return false;
}

static bool is_of_file(const struct plan_stream *stream)
{
	return stream->path_kind != PATH_KIND_SOCKET && stream->path_kind != PATH_KIND_PIPE &&
	       stream->path_kind != PATH_KIND_ANON;
}

struct seen_ops seen_ops(const struct plan *plan, uint64_t threshold_ns)
{
	struct seen_ops seen = {0};

	for (uint32_t i = 0; i < plan->header->stream_count; i++) {
		const struct plan_stream *stream = &plan->streams[i];
		const uint32_t ops = op_is_sync(stream->op) ? ALL_SYNCS : ALL_WRITES;

		if (!has_effect(plan, stream, threshold_ns))
			continue;
		seen.any_fd |= ops & plan->header->syscall_mask;
		if (is_of_file(stream))
			seen.standard_fds |= ops & plan->header->syscall_mask;
	}
	return seen;
}
