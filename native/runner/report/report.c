#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool report_open(struct report *report, const char *path, struct failure *failure)
{
	*report = (struct report){.file = -1};
	pthread_mutex_init(&report->lock, NULL);
	if (!path)
		return true;
	report->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return report->file >= 0 || fail(failure, "report %s: %s", path, strerror(errno));
}

static bool write_all(int file, const void *bytes, size_t count)
{
	const char *from = bytes;

	while (count > 0) {
		const ssize_t written = write(file, from, count);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			errno = written < 0 ? errno : ENOSPC;
			return false;
		}
		from += written;
		count -= written;
	}
	return true;
}

bool report_start(struct report *report, const struct report_header *header, struct failure *failure)
{
	return report->file < 0 || write_all(report->file, header, sizeof(*header)) ||
	       fail(failure, "report: %s", strerror(errno));
}

/* The caller holds the lock. */
static bool has_room(struct report *report)
{
	if (report->waiting_count < report->waiting_room)
		return true;
	if (report->waiting_room >= REPORT_CALLS_WAITING_MAX)
		return false;
	const uint32_t room = report->waiting_room ? report->waiting_room * 2 : 4096;
	struct report_call *waiting = realloc(report->waiting, room * sizeof(*waiting));
	if (!waiting)
		return false;
	report->waiting = waiting;
	report->waiting_room = room;
	return true;
}

void report_append(struct report *report, const struct report_call *call)
{
	if (report->file < 0)
		return;
	pthread_mutex_lock(&report->lock);
	if (report->write_errno == 0 && has_room(report))
		report->waiting[report->waiting_count++] = *call;
	else
		report->lost_count++;
	pthread_mutex_unlock(&report->lock);
}

void report_flush(struct report *report)
{
	pthread_mutex_lock(&report->lock);
	struct report_call *calls = report->waiting;
	const uint32_t count = report->waiting_count;
	const uint32_t room = report->waiting_room;
	report->waiting = report->writing;
	report->waiting_room = report->writing_room;
	report->waiting_count = 0;
	pthread_mutex_unlock(&report->lock);

	report->writing = calls;
	report->writing_room = room;
	if (count == 0 || report->write_errno || write_all(report->file, calls, count * sizeof(*calls)))
		return;
	pthread_mutex_lock(&report->lock);
	report->write_errno = errno;
	report->lost_count += count;
	pthread_mutex_unlock(&report->lock);
}
