#include "plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC_VERSION_SHIFT 56

/*
 * Returns whether `count` structs of `size` bytes lie inside the file, aligned. The products cannot overflow: they are
 * 32 bits times 32.
 */
static bool lies_inside(const struct plan *plan, uint64_t at, uint64_t count, uint64_t size)
{
	return at % 8 == 0 && at >= sizeof(struct plan_header) && at <= plan->bytes && count * size <= plan->bytes - at;
}

static bool check_header(struct plan *plan, const unsigned char *bytes, struct failure *failure)
{
	const struct plan_header *header = (const struct plan_header *)bytes;
	const uint64_t version_mask = 0xffull << MAGIC_VERSION_SHIFT;

	if (plan->bytes < sizeof(*header))
		return fail(failure, "not a plan: %zu bytes are too few", plan->bytes);
	if ((header->magic ^ PLAN_MAGIC) & ~version_mask)
		return fail(failure, "not a plan: its first bytes differ");
	if (header->magic != PLAN_MAGIC)
		return fail(failure, "a plan of version %d, this program reads version %d",
			    (int)(header->magic >> MAGIC_VERSION_SHIFT), (int)(PLAN_MAGIC >> MAGIC_VERSION_SHIFT));
	if (header->file_bytes != plan->bytes)
		return fail(failure, "the plan has %zu bytes, but was written with %llu", plan->bytes,
			    (unsigned long long)header->file_bytes);
	if (!lies_inside(plan, header->streams_at, header->stream_count, sizeof(struct plan_stream)) ||
	    !lies_inside(plan, header->slots_at, header->slot_count, sizeof(struct plan_slot)) ||
	    !lies_inside(plan, header->events_at, header->event_count, sizeof(struct plan_event)) ||
	    !lies_inside(plan, header->strings_at, header->string_bytes, 1))
		return fail(failure, "the plan is damaged: a table lies outside of it");
	if (header->syscall_mask >> OP_COUNT)
		return fail(failure, "the plan is damaged: it names calls that do not exist");
	plan->header = header;
	plan->streams = (const struct plan_stream *)(bytes + header->streams_at);
	plan->slots = (const struct plan_slot *)(bytes + header->slots_at);
	plan->events = (const struct plan_event *)(bytes + header->events_at);
	plan->strings = (const char *)bytes + header->strings_at;
	if (header->string_bytes == 0 || plan->strings[header->string_bytes - 1] != 0)
		return fail(failure, "the plan is damaged: its strings have no end");
	return true;
}

static bool is_range(uint32_t first, uint32_t count, uint32_t all)
{
	return count <= all && first <= all - count;
}

/*
 * The sums are checked as well: if streams shared slots, or slots shared events, a small file could require any amount
 * of memory.
 */
static bool check_tables(const struct plan *plan, struct failure *failure)
{
	const struct plan_header *header = plan->header;
	uint64_t slots = 0, events = 0;

	for (uint32_t i = 0; i < header->stream_count; i++) {
		const struct plan_stream *stream = &plan->streams[i];

		slots += stream->slot_count;
		if (stream->op >= OP_COUNT || stream->path_kind >= PATH_KIND_COUNT ||
		    stream->path >= header->string_bytes || stream->comm >= header->string_bytes ||
		    stream->service >= header->string_bytes ||
		    !is_range(stream->first_slot, stream->slot_count, header->slot_count) || slots > header->slot_count)
			return fail(failure, "the plan is damaged: stream %u", i);
	}
	for (uint32_t i = 0; i < header->slot_count; i++) {
		const struct plan_slot *slot = &plan->slots[i];

		events += slot->event_count;
		if (slot->comm >= header->string_bytes ||
		    !is_range(slot->first_event, slot->event_count, header->event_count) ||
		    events > header->event_count)
			return fail(failure, "the plan is damaged: slot %u", i);
	}
	return true;
}

bool plan_check(struct plan *plan, const void *bytes, size_t count, struct failure *failure)
{
	*plan = (struct plan){.bytes = count};
	return check_header(plan, bytes, failure) && check_tables(plan, failure);
}

static bool map_file(int file, const char *path, void **bytes, size_t *count, struct failure *failure)
{
	struct stat stat;

	if (fstat(file, &stat) < 0)
		return fail(failure, "plan %s: %s", path, strerror(errno));
	if (!S_ISREG(stat.st_mode) || stat.st_size == 0)
		return fail(failure, "plan %s: not a plan: %s", path,
			    S_ISREG(stat.st_mode) ? "it is empty" : "it is not a regular file");
	*count = stat.st_size;
	*bytes = mmap(NULL, *count, PROT_READ, MAP_PRIVATE, file, 0);
	return *bytes != MAP_FAILED || fail(failure, "plan %s: %s", path, strerror(errno));
}

bool plan_open(struct plan *plan, const char *path, struct failure *failure)
{
	struct failure inside;
	void *bytes = NULL;
	size_t count = 0;
	const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (file < 0)
		return fail(failure, "plan %s: %s", path, strerror(errno));
	const bool is_mapped = map_file(file, path, &bytes, &count, failure);
	close(file);
	if (!is_mapped)
		return false;
	if (plan_check(plan, bytes, count, &inside))
		return true;
	munmap(bytes, count);
	return fail(failure, "plan %s: %.400s", path, inside.text);
}

void plan_close(struct plan *plan)
{
	munmap((void *)plan->header, plan->bytes);
}
