#pragma once

#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Times of any number of events, nanoseconds. */
struct times {
	int64_t *ns;
	long count, room;
};

static void add_time(struct times *times, int64_t ns)
{
	if (times->count == times->room) {
		times->room = times->room ? times->room * 2 : 1 << 16;
		times->ns = realloc(times->ns, times->room * sizeof(*times->ns));
		if (!times->ns)
			err(1, "memory");
	}
	times->ns[times->count++] = ns;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The least time that `share` of them do not exceed. */
static int64_t percentile(const struct times *times, double share)
{
	long place = (long)(times->count * share + 0.999999) - 1;

	return times->ns[place < 0 ? 0 : place];
}

static void print_times(const char *name, struct times *times)
{
	if (times->count == 0)
		errx(1, "no events");
	qsort(times->ns, times->count, sizeof(*times->ns), compare);
	printf("\"%s\": {\"p50\": %ld, \"p99\": %ld, \"max\": %ld}", name, percentile(times, 0.5),
	       percentile(times, 0.99), percentile(times, 1));
}
