/*
 * Drives the parts of the runner that make no system calls:
 *   match_driver plan FILE...          reads and checks each; after each prints whether it was read
 *   match_driver match FILE MODE SEED [class]
 *                                      calls on stdin: FILE_KEY is_sync TID COMM SIZE (or - for unknown);
 *                                      prints HOW EVENT TARGET
 *   match_driver stall FILE THRESHOLD  calls on stdin: FILE_KEY is_sync TIME; prints HOW EVENT TARGET
 *   match_driver key path|comm         texts on stdin; prints their keys
 *   match_driver heap SEED             random pushes and removals against a plain list
 *   match_driver lateness              lines of nanoseconds on stdin; prints the percentiles 1 to 100 of each line
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delay/heap.h"
#include "delay/lateness.h"
#include "identify/keys.h"
#include "match/match.h"
#include "match/stalls.h"
#include "plan/plan.h"

#define LINE_MAX_BYTES 4096
#define CALLS 500

static uint32_t first_ended, last_ended;

static bool has_ended(uint32_t tid)
{
	return tid >= first_ended && tid <= last_ended;
}

static int check_plan(const char *path)
{
	struct plan plan;
	struct streams streams;
	struct failure failure;

	if (!plan_open(&plan, path, &failure)) {
		printf("%s\nrefused\n", failure.text);
		return 0;
	}
	if (!streams_make(&streams, &plan))
		return 2;
	for (uint32_t i = 0; i < streams.stream_count; i++)
		printf("%s %s %u\n", streams.groups[streams.streams[i].group].file, streams.streams[i].role,
		       streams.streams[i].event_count);
	streams_free(&streams);
	plan_close(&plan);
	puts("read");
	return 0;
}

static int check_plans(int count, char **paths)
{
	for (int i = 0; i < count; i++) {
		const int status = check_plan(paths[i]);

		if (status != 0)
			return status;
	}
	return 0;
}

static int match(const char *path, int mode, uint64_t seed, bool draws_by_class)
{
	struct plan plan;
	struct streams streams;
	struct matcher matcher;
	struct classes classes;
	struct failure failure;
	char line[LINE_MAX_BYTES], file[1024], comm[64], role[KEY_MAX], size[32];
	unsigned is_sync, tid;

	if (!plan_open(&plan, path, &failure) || !streams_make(&streams, &plan) ||
	    !matcher_make(&matcher, &streams, mode, seed) || !classes_make(&classes, &streams))
		return 1;
	matcher.classes = draws_by_class ? &classes : NULL;
	matcher.has_ended = has_ended;
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "ended %u %u", &first_ended, &last_ended) == 2)
			continue;
		/* As for a name of the build that turns out to stand for another file: its calls count as not made. */
		if (sscanf(line, "moved %1023s", file) == 1) {
			matcher_give_back(&matcher, streams_group(&streams, false, file));
			continue;
		}
		if (sscanf(line, "%1023s %u %u %63s %31s", file, &is_sync, &tid, comm, size) != 5)
			return 2;
		key_of_comm(comm, role);
		const struct match found =
		    matcher_match(&matcher, &(struct observed){
						.group = streams_group(&streams, is_sync, file),
						.is_sync = is_sync,
						.path_kind = path_kind_of(file),
						.tid = tid,
						.comm = comm,
						.role = role,
						.size = *size == '-' ? SIZE_UNKNOWN : (uint32_t)strtoul(size, NULL, 10),
					    });
		printf("%u %d %" PRIu64 "\n", found.how, (int)found.event, found.target_ns);
	}
	classes_free(&classes);
	matcher_free(&matcher);
	streams_free(&streams);
	return 0;
}

static int stall(const char *path, uint64_t threshold_ns)
{
	struct plan plan;
	struct streams streams;
	struct stalls stalls;
	struct failure failure;
	char line[LINE_MAX_BYTES], file[1024];
	unsigned is_sync;
	uint64_t now_ns;

	if (!plan_open(&plan, path, &failure) || !streams_make(&streams, &plan) ||
	    !stalls_make(&stalls, &streams, threshold_ns))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%1023s %u %" SCNu64, file, &is_sync, &now_ns) != 3)
			return 2;
		const struct match found = stalls_match(&stalls, streams_group(&streams, is_sync, file), now_ns);
		printf("%u %d %" PRIu64 "\n", found.how, (int)found.event, found.target_ns);
	}
	stalls_free(&stalls);
	streams_free(&streams);
	return 0;
}

static int keys(const char *what)
{
	char line[LINE_MAX_BYTES], key[KEY_MAX], pattern[KEY_MAX];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (strcmp(what, "comm") == 0)
			key_of_comm(line, key);
		else
			key_of_file(path_kind_of(line), line, key);
		if (strcmp(what, "pattern") == 0)
			pattern_of_path(key, pattern);
		puts(strcmp(what, "pattern") == 0 ? pattern : key);
	}
	return 0;
}

static bool is_earliest(const struct heap *heap, const struct call *calls)
{
	const struct call *first = heap_first(heap);
	uint32_t held = 0;

	for (int i = 0; i < CALLS; i++) {
		held += calls[i].heap_index != NOT_IN_HEAP;
		if (calls[i].heap_index != NOT_IN_HEAP && calls[i].deadline_ns < first->deadline_ns)
			return false;
	}
	return held == heap->count && (held > 0) == (first != NULL);
}

static int heap(unsigned seed)
{
	static struct call calls[CALLS];
	struct heap all = {0};

	srand(seed);
	for (int i = 0; i < CALLS; i++)
		calls[i].heap_index = NOT_IN_HEAP;
	for (int step = 0; step < 20 * CALLS; step++) {
		struct call *call = &calls[rand() % CALLS];

		if (call->heap_index != NOT_IN_HEAP) {
			heap_remove(&all, call);
		} else {
			call->deadline_ns = rand() % 1000;
			heap_push(&all, call);
		}
		if (!is_earliest(&all, calls))
			return 1;
	}
	puts("the first is always the earliest");
	return 0;
}

static int lateness(void)
{
	static struct lateness all;
	char line[LINE_MAX_BYTES];

	for (char *more = fgets(line, sizeof(line), stdin); more; more = fgets(line, sizeof(line), stdin)) {
		all = (struct lateness){0};
		for (char *at = line, *end; *at != '\n'; at = end)
			lateness_add(&all, strtoull(at, &end, 10));
		for (unsigned percent = 1; percent <= 100; percent++)
			printf("%" PRIu64 "%c", lateness_percentile(&all, percent), percent == 100 ? '\n' : ' ');
	}
	return 0;
}

int main(int words, char **word)
{
	if (words >= 3 && strcmp(word[1], "plan") == 0)
		return check_plans(words - 2, word + 2);
	if ((words == 5 || words == 6) && strcmp(word[1], "match") == 0)
		return match(word[2], atoi(word[3]), strtoull(word[4], NULL, 10), words == 6);
	if (words == 4 && strcmp(word[1], "stall") == 0)
		return stall(word[2], strtoull(word[3], NULL, 10));
	if (words == 3 && strcmp(word[1], "key") == 0)
		return keys(word[2]);
	if (words == 3 && strcmp(word[1], "heap") == 0)
		return heap(atoi(word[2]));
	return words == 2 && strcmp(word[1], "lateness") == 0 ? lateness() : 2;
}
