#ifndef KREPLAY_RUNNER_REPORT_H
#define KREPLAY_RUNNER_REPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "gen/format.h"
#include "report/failure.h"

/* Limit of 64 MB for records that wait for a stalled disk; further ones are only counted. */
#define REPORT_CALLS_WAITING_MAX (1u << 20)

/* The report file. Threads append to memory, and only report_flush() waits for the disk. */
struct report {
	int file; /* -1: none is wanted */
	pthread_mutex_t lock;
	struct report_call *waiting, *writing;
	uint32_t waiting_count, waiting_room, writing_room;
	uint64_t lost_count;
	int write_errno; /* error of the first failure; nothing is written after it */
};

bool report_open(struct report *report, const char *path, struct failure *failure);
bool report_start(struct report *report, const struct report_header *header, struct failure *failure);
void report_append(struct report *report, const struct report_call *call);
void report_flush(struct report *report);

#endif
