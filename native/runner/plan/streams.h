/*
 * The plan's streams, merged where they differ only in numbers or random parts of names:
 *
 *   group   op class and file          writes to /data/wal/seg-1.log
 *     stream  + role                     by http-#
 *       slot    + recorded thread          http-1, thread 4711   order[first] ... order[first + count - 1]
 *
 * A slot's events are in the order in which its thread made them. If the calls on a file did not overlap, whichever
 * thread made them, their order in the file counts: the group has one slot for all threads.
 */
#ifndef KREPLAY_RUNNER_STREAMS_H
#define KREPLAY_RUNNER_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "identify/table.h"
#include "plan/plan.h"
#include "plan/size_pools.h"

struct group {
	bool is_sync;
	uint32_t path_kind; /* PATH_KIND_* */
	char *file;         /* key */
	uint32_t first_slot, slot_count;
	uint32_t first_stream;
	bool is_in_order; /* one slot for all threads */
	bool has_roles;   /* the role of a call's thread matters: there are several, or a rule refers to one */
	uint16_t any_flags, all_flags; /* EVENT_FLAG_* of any of its events, and of all */
};

struct stream {
	uint32_t group;
	char *role;
	uint32_t event_count;
};

struct slot {
	uint32_t group, stream;
	uint32_t tid;
	const char *comm;
	uint32_t first, count; /* places in order */
	uint32_t size_count;   /* number of different sizes, about */
	uint64_t begins_ns;
	uint32_t plan_slots; /* how many of the plan's slots it consists of */
};

struct streams {
	const struct plan *plan;
	struct group *groups;
	struct stream *streams;
	struct slot *slots;
	uint32_t group_count, stream_count, slot_count;
	uint32_t *order;       /* events by slot */
	uint32_t placed_count; /* events that are in a slot */
	uint32_t *stream_of_event;
	struct size_pools sizes; /* events by stream and size */
	bool has_cut_paths;      /* of some paths, only the last directories are known: .../d/e/f */
	struct table group_by_key, stream_by_key;
};

bool streams_make(struct streams *streams, const struct plan *plan);
void streams_free(struct streams *streams);

/* Returns NONE if the plan contains nothing of that kind. */
uint32_t streams_group(const struct streams *streams, bool is_sync, const char *file_key);
/* Returns the group of recorded msyncs without a file: their mapping, and so the file, was not recorded. */
uint32_t streams_group_of_msyncs(const struct streams *streams);
/*
 * Returns the group of the first stream with that role, for calls whose file cannot be seen; groups that a rule with a
 * path refers to are left out. A call that has no file matches only a derived one, whose own call was not recorded.
 */
uint32_t streams_group_of_role(const struct streams *streams, bool is_sync, bool has_file, const char *role);
/* Returns NONE if the group has no stream of that role. */
uint32_t streams_stream(const struct streams *streams, uint32_t group, const char *role);
/* Returns whether a rule chose the event for threads of another role than that of `own`, a stream. */
bool streams_is_for_others(const struct streams *streams, uint32_t event, uint32_t own);

#endif
