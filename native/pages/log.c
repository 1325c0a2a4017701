/*
 * Reads and writes of the write-ahead log, which is a header and then frames of a header and a page each.
 *
 * Pages get their checksums here, not when they are copied into the database: any SQLite may do that. A frame has
 * SQLite's own checksum over the page and all frames before it, which SQLite computes before it writes the page. As the
 * page changes here, that checksum is computed again, from the one in the previous frame. SQLite continues its own in
 * memory and never compares it with the file: it verifies checksums only when it recovers a log, and then uses only the
 * file.
 */
#include "file.h"

#include <endian.h>
#include <string.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT3

enum {
	LOG_HEADER_BYTES = 32,
	FRAME_HEADER_BYTES = 24,
	/* Offsets of SQLite's checksum in the header of the log, and in that of a frame. */
	LOG_CHECKSUM_AT = 24,
	FRAME_CHECKSUM_AT = 16,
	/* The part of a frame's header that its checksum covers. */
	CHECKED_BYTES = 8,
	/* The byte whose lowest bit indicates that checksums read words as big-endian. */
	BIG_ENDIAN_AT = 3,
	MAGIC = 0x377f0682,
	LOG_PAGE_BYTES_AT = 8,
	LOG_SALTS_AT = 16,
	FRAME_COMMIT_AT = 4,
	FRAME_SALTS_AT = 8,
	SALTS_BYTES = 8,
	FRAMES_A_READ = 64,
	LOOKS_MAX = 5,
	LOOK_AGAIN_AFTER_US = 2000,
};

static void set_big_endian(uint8_t *bytes, uint32_t value)
{
	value = htobe32(value);
	memcpy(bytes, &value, sizeof(value));
}

struct sums {
	uint32_t first, second;
};

/* The checksum algorithm of SQLite's file format, section 4.2. */
static struct sums add_words(struct sums sums, const uint8_t *bytes, uint32_t count, bool is_big_endian)
{
	for (uint32_t at = 0; at < count; at += 8) {
		uint32_t words[2];

		memcpy(words, bytes + at, sizeof(words));
		sums.first += (is_big_endian ? be32toh(words[0]) : le32toh(words[0])) + sums.second;
		sums.second += (is_big_endian ? be32toh(words[1]) : le32toh(words[1])) + sums.first;
	}
	return sums;
}

static int64_t frame_bytes(const struct checked_file *log)
{
	return FRAME_HEADER_BYTES + (int64_t)log->database->page_bytes;
}

/* The offset of a byte of the log in its frame; -1 in the header. */
static int64_t offset_in_frame(const struct checked_file *log, int64_t at)
{
	return at < LOG_HEADER_BYTES ? -1 : (at - LOG_HEADER_BYTES) % frame_bytes(log);
}

/* Reads the checksum that precedes a frame, from which its own continues. */
static int sums_before(struct checked_file *log, int64_t frame_at, struct sums *sums, bool *is_big_endian)
{
	uint8_t header[LOG_HEADER_BYTES], *stored = header + LOG_CHECKSUM_AT;
	int error = read_real(log, header, sizeof(header), 0);

	if (error)
		return error;
	*is_big_endian = header[BIG_ENDIAN_AT] & 1;
	if (frame_at > LOG_HEADER_BYTES) {
		error = read_real(log, stored, 8, frame_at - frame_bytes(log) + FRAME_CHECKSUM_AT);
		if (error)
			return error;
	}
	sums->first = big_endian(stored);
	sums->second = big_endian(stored + 4);
	return SQLITE_OK;
}

static int write_frame(struct checked_file *log, const uint8_t *page, int bytes, int64_t frame_at)
{
	sqlite3_file *real = real_file(log);
	uint8_t *frame = scratch_of(log, FRAME_HEADER_BYTES + bytes);
	const bool is_appended = log->header_at == frame_at;
	bool is_big_endian;
	struct sums sums;
	int error;

	if (!frame)
		return SQLITE_IOERR_NOMEM;
	log->header_at = -1;
	memcpy(frame, log->header, FRAME_HEADER_BYTES);
	/* The page changes again before its transaction ends; SQLite later writes all headers from there on again. */
	if (!is_appended && (error = read_real(log, frame, FRAME_HEADER_BYTES, frame_at)))
		return error;
	memcpy(frame + FRAME_HEADER_BYTES, page, bytes);
	set_checksum(frame + FRAME_HEADER_BYTES, bytes, big_endian(frame));
	if (big_endian(frame) == 1)
		note_page_count(log->database, page);
	if (!is_appended)
		return real->pMethods->xWrite(real, frame + FRAME_HEADER_BYTES, bytes, frame_at + FRAME_HEADER_BYTES);
	error = sums_before(log, frame_at, &sums, &is_big_endian);
	if (error)
		return error;
	sums = add_words(sums, frame, CHECKED_BYTES, is_big_endian);
	sums = add_words(sums, frame + FRAME_HEADER_BYTES, bytes, is_big_endian);
	set_big_endian(frame + FRAME_CHECKSUM_AT, sums.first);
	set_big_endian(frame + FRAME_CHECKSUM_AT + 4, sums.second);
	error = real->pMethods->xWrite(real, frame, FRAME_HEADER_BYTES + bytes, frame_at);
	if (!error && log->end_at < frame_at + FRAME_HEADER_BYTES + bytes)
		log->end_at = frame_at + FRAME_HEADER_BYTES + bytes;
	return error;
}

int log_write(sqlite3_file *base, const void *buffer, int bytes, sqlite3_int64 at)
{
	struct checked_file *log = (struct checked_file *)base;
	sqlite3_file *real = real_file(log);
	int64_t offset;

	if (!log->database->sets || at < LOG_HEADER_BYTES) {
		log->header_at = -1;
		log->end_at = 0;
		return real->pMethods->xWrite(real, buffer, bytes, at);
	}
	if (log->database->page_bytes == 0)
		return SQLITE_IOERR_WRITE;
	offset = offset_in_frame(log, at);
	if (offset == 0 && bytes == FRAME_HEADER_BYTES) {
		log->header_at = at;
		memcpy(log->header, buffer, bytes);
		/*
		 * SQLite writes the page of a new frame next, and the header is written with it: a writer that is
		 * killed between them would leave a header over the page of an older log, which looks like damage.
		 */
		if (at >= log->end_at)
			return SQLITE_OK;
		return real->pMethods->xWrite(real, buffer, bytes, at);
	}
	if (offset == FRAME_HEADER_BYTES && (uint32_t)bytes == log->database->page_bytes)
		return write_frame(log, buffer, bytes, at - FRAME_HEADER_BYTES);
	return SQLITE_IOERR_WRITE;
}

int log_read(sqlite3_file *base, void *buffer, int bytes, sqlite3_int64 at)
{
	struct checked_file *log = (struct checked_file *)base;
	struct checked_file *database = log->database;
	uint8_t *frame;
	int64_t offset;
	int error;

	/* Page 1, which indicates that pages are guarded, may exist only in the log. */
	if (!database->checks) {
		error = read_real(log, buffer, bytes, at);
		if (error || !is_page_size(bytes))
			return error;
		if (!note_header(database, buffer))
			return SQLITE_IOERR_DATA;
		if (!database->checks)
			return SQLITE_OK;
	}
	offset = offset_in_frame(log, at);
	/* Reads that include headers are for recovery, in which SQLite itself verifies the frame checksums. */
	if (offset < FRAME_HEADER_BYTES)
		return read_real(log, buffer, bytes, at);
	if (offset + bytes > frame_bytes(log))
		return SQLITE_IOERR_READ;
	frame = scratch_of(log, frame_bytes(log));
	if (!frame)
		return SQLITE_IOERR_NOMEM;
	error = read_real(log, frame, frame_bytes(log), at - offset);
	if (error)
		return error;
	if (!is_sound(frame + FRAME_HEADER_BYTES, database->page_bytes, big_endian(frame))) {
		sqlite3_log(SQLITE_IOERR_DATA, "page %u in the log does not match its checksum", big_endian(frame));
		return SQLITE_IOERR_DATA;
	}
	if (big_endian(frame) == 1)
		note_page_count(database, frame + FRAME_HEADER_BYTES);
	memcpy(buffer, frame + offset, bytes);
	return SQLITE_OK;
}

int log_close(sqlite3_file *base)
{
	struct checked_file *log = (struct checked_file *)base;

	log->database->log = NULL;
	return file_close(base);
}

/* The state of one pass over the log. */
struct look {
	uint8_t header[LOG_HEADER_BYTES];
	bool is_big_endian;
	/* Checksum of the frames so far, whose chain is intact. */
	struct sums sums;
	/* The first frame that breaks the chain, from 1; 0 while it is intact. */
	int64_t broken_frame;
	/*
	 * Whether a frame from `broken_frame` to the next commit is damaged, rather than left by an interrupted writer.
	 */
	bool is_changed;
	/* Number of commits from `broken_frame` on. */
	uint32_t commits;
};

static bool has_sums(const uint8_t *stored, struct sums sums)
{
	return big_endian(stored) == sums.first && big_endian(stored + 4) == sums.second;
}

static bool is_header_sound(struct look *look)
{
	const uint8_t *header = look->header;

	look->is_big_endian = header[BIG_ENDIAN_AT] & 1;
	look->sums = add_words((struct sums){0}, header, LOG_CHECKSUM_AT, look->is_big_endian);
	return (big_endian(header) & ~1u) == MAGIC && has_sums(header + LOG_CHECKSUM_AT, look->sums);
}

static bool hangs_together(struct look *look, const uint8_t *frame, uint32_t page_bytes)
{
	look->sums = add_words(look->sums, frame, CHECKED_BYTES, look->is_big_endian);
	look->sums = add_words(look->sums, frame + FRAME_HEADER_BYTES, page_bytes, look->is_big_endian);
	return has_sums(frame + FRAME_CHECKSUM_AT, look->sums);
}

/* A restart of the log increments the first salt and randomizes the second: a frame with either belongs to this log. */
static void look_at_frame(struct look *look, const uint8_t *frame, uint32_t page_bytes, int64_t number, bool checks)
{
	const uint8_t *salts = frame + FRAME_SALTS_AT, *known = look->header + LOG_SALTS_AT;
	const bool has_first = memcmp(salts, known, 4) == 0, has_second = memcmp(salts + 4, known + 4, 4) == 0;

	if (!look->broken_frame && has_first && has_second && hangs_together(look, frame, page_bytes))
		return;
	if (!look->broken_frame)
		look->broken_frame = number;
	if (look->commits == 0 && !(has_first && has_second &&
				    (!checks || is_sound(frame + FRAME_HEADER_BYTES, page_bytes, big_endian(frame)))))
		look->is_changed = true;
	if (big_endian(frame + FRAME_COMMIT_AT) != 0 && (has_first || has_second))
		look->commits++;
}

/*
 * Pages that change again before their transaction ends are written in place, and the frames' checksums only after the
 * last frame, which is marked as a commit. A writer that is killed in between leaves one commit that is not valid,
 * after frames that are each sound by themselves: that is no damage.
 */
static bool hides_commit(const struct look *look)
{
	return look->commits > 1 || (look->commits == 1 && look->is_changed);
}

static int look_at_frames(struct checked_file *log, struct look *look, uint8_t *frames, uint32_t page_bytes,
			  int64_t bytes)
{
	const int64_t frame_size = FRAME_HEADER_BYTES + (int64_t)page_bytes;
	const int64_t count = (bytes - LOG_HEADER_BYTES) / frame_size;

	for (int64_t at = 0; at < count && !hides_commit(look); at += FRAMES_A_READ) {
		const int64_t part = count - at < FRAMES_A_READ ? count - at : FRAMES_A_READ;
		const int error = read_real(log, frames, part * frame_size, LOG_HEADER_BYTES + at * frame_size);

		if (error)
			return error == SQLITE_IOERR_SHORT_READ ? SQLITE_BUSY : error;
		for (int64_t i = 0; i < part; i++)
			look_at_frame(look, frames + i * frame_size, page_bytes, at + i + 1, log->database->checks);
	}
	return SQLITE_OK;
}

static int look_once(struct checked_file *log, int64_t *frame)
{
	sqlite3_file *real = real_file(log);
	struct look look = {0};
	uint8_t header[LOG_HEADER_BYTES], *frames;
	sqlite3_int64 bytes = 0;
	uint32_t page_bytes;
	int error = real->pMethods->xFileSize(real, &bytes);

	*frame = 0;
	if (error || bytes <= LOG_HEADER_BYTES)
		return error;
	error = read_real(log, look.header, LOG_HEADER_BYTES, 0);
	if (error)
		return error;
	if (!is_header_sound(&look)) {
		*frame = 1;
		return SQLITE_OK;
	}
	page_bytes = big_endian(look.header + LOG_PAGE_BYTES_AT);
	if (!is_page_size(page_bytes))
		return SQLITE_OK;
	frames = sqlite3_malloc64(FRAMES_A_READ * (FRAME_HEADER_BYTES + (int64_t)page_bytes));
	if (!frames)
		return SQLITE_NOMEM;
	error = look_at_frames(log, &look, frames, page_bytes, bytes);
	sqlite3_free(frames);
	if (!error)
		error = read_real(log, header, LOG_HEADER_BYTES, 0);
	/* A writer has truncated or restarted the log, so the old frames are obsolete. */
	if (error == SQLITE_IOERR_SHORT_READ || (!error && memcmp(header, look.header, LOG_HEADER_BYTES) != 0))
		return SQLITE_BUSY;
	if (!error && hides_commit(&look))
		*frame = look.broken_frame;
	return error;
}

/*
 * SQLite reads a log as far as its checksum chain is intact, and takes the rest for an incomplete commit. If a complete
 * commit follows that point, the log is damaged before it. An active writer may be writing just there, but its frame is
 * whole shortly afterwards: the log is checked again.
 */
int unreadable_frame(struct checked_file *database, int64_t *frame)
{
	int error = SQLITE_OK;

	*frame = 0;
	for (int looks = 1; database->log && looks <= LOOKS_MAX; looks++) {
		error = look_once(database->log, frame);
		if (error != SQLITE_BUSY && (error || *frame == 0))
			return error;
		usleep(LOOK_AGAIN_AFTER_US);
	}
	return error == SQLITE_BUSY ? SQLITE_OK : error;
}

/*
 * Follows the intact chain of the log's frames: returns the number of frames up to the last commit in it, and sets a
 * bit for the page of each of the first `marked` frames.
 */
static int follow_commits(struct checked_file *log, uint8_t *bits, int64_t pages, int64_t marked, int64_t *committed,
			  struct look *of_first)
{
	struct look look = {0};
	uint8_t *frame = NULL;
	uint32_t page_bytes = 0;
	int error = read_real(log, look.header, LOG_HEADER_BYTES, 0);

	*committed = 0;
	if (!error && is_header_sound(&look))
		page_bytes = big_endian(look.header + LOG_PAGE_BYTES_AT);
	/* A log that began again since the first pass has other frames. */
	if (marked > 0 && memcmp(look.header, of_first->header, LOG_HEADER_BYTES) != 0)
		return SQLITE_OK;
	memcpy(of_first->header, look.header, LOG_HEADER_BYTES);
	if (error || !is_page_size(page_bytes))
		return error == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : error;
	frame = sqlite3_malloc64(FRAME_HEADER_BYTES + (int64_t)page_bytes);
	if (!frame)
		return SQLITE_NOMEM;
	for (int64_t number = 1; !error; number++) {
		const int64_t size = FRAME_HEADER_BYTES + (int64_t)page_bytes;
		uint32_t page;

		error = read_real(log, frame, size, LOG_HEADER_BYTES + (number - 1) * size);
		if (error || memcmp(frame + FRAME_SALTS_AT, look.header + LOG_SALTS_AT, SALTS_BYTES) != 0 ||
		    !hangs_together(&look, frame, page_bytes))
			break;
		page = big_endian(frame);
		if (number <= marked && page > 0 && page <= pages)
			bits[(page - 1) / 8] |= 1 << (page - 1) % 8;
		if (big_endian(frame + FRAME_COMMIT_AT) != 0)
			*committed = number;
	}
	sqlite3_free(frame);
	return error == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : error;
}

int mark_logged_pages(struct checked_file *database, uint8_t *bits, int64_t pages)
{
	struct checked_file *log = database->log;
	struct look look = {0};
	int64_t committed = 0, again;
	int error = log ? follow_commits(log, bits, pages, 0, &committed, &look) : SQLITE_OK;

	return error || committed == 0 ? error : follow_commits(log, bits, pages, committed, &again, &look);
}

/* Whether the database has the page as this frame has it; -1 when the frame is damaged. */
static int is_copied(struct checked_file *database, const uint8_t *frame, uint8_t *page)
{
	const int64_t bytes = database->page_bytes;
	const uint32_t number = big_endian(frame);
	const uint8_t *logged = frame + FRAME_HEADER_BYTES;

	if (number == 0 || !is_sound(logged, bytes, number))
		return -1;
	return read_real(database, page, bytes, (number - 1) * bytes) == SQLITE_OK && memcmp(page, logged, bytes) == 0;
}

int list_copied(struct checked_file *database, int64_t first, sqlite3_str *list)
{
	struct checked_file *log = database->log;
	const int64_t size = FRAME_HEADER_BYTES + (int64_t)database->page_bytes;
	uint8_t header[LOG_HEADER_BYTES], *frame;
	sqlite3_int64 bytes = 0;
	int error;

	if (!log || !database->checks)
		return SQLITE_OK;
	error = real_file(log)->pMethods->xFileSize(real_file(log), &bytes);
	if (!error)
		error = read_real(log, header, LOG_HEADER_BYTES, 0);
	if (error)
		return error;
	frame = sqlite3_malloc64(size + database->page_bytes);
	if (!frame)
		return SQLITE_NOMEM;
	for (int64_t at = LOG_HEADER_BYTES + (first - 1) * size; at + size <= bytes; at += size) {
		int copied;

		error = read_real(log, frame, size, at);
		if (error)
			break;
		copied = is_copied(database, frame, frame + size);
		if (copied >= 0 && memcmp(frame + FRAME_SALTS_AT, header + LOG_SALTS_AT, SALTS_BYTES) == 0)
			sqlite3_str_appendf(list, sqlite3_str_length(list) > 1 ? ",%s%u" : "%s%u", copied ? "" : "-",
					    big_endian(frame));
	}
	sqlite3_free(frame);
	return error;
}
