/*
 * Reads and writes of the write-ahead log: a header, then frames of a header and a page each.
 *
 * Pages get their checksums here, not when they are copied into the database: any SQLite may do that. A frame has a
 * checksum of SQLite's over the page and all frames before it, which SQLite has made when the page comes here. So it is
 * made again, from the one in the frame before. SQLite's own goes on in memory and is never compared with the file: it
 * looks at checksums when it recovers a log, and then at those in the file alone.
 */
#include "file.h"

#include <endian.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
	LOG_HEADER_BYTES = 32,
	FRAME_HEADER_BYTES = 24,
	/* Of the header of the log, and of that of a frame. */
	LOG_CHECKSUM_AT = 24,
	FRAME_CHECKSUM_AT = 16,
	/* What of a frame's header is part of its checksum. */
	CHECKED_BYTES = 8,
	/* The lowest bit of the first word: whether checksums take words as big-endian. */
	BIG_ENDIAN_AT = 3,
};

static uint32_t big_endian(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return be32toh(value);
}

static void set_big_endian(uint8_t *bytes, uint32_t value)
{
	value = htobe32(value);
	memcpy(bytes, &value, sizeof(value));
}

struct sums {
	uint32_t first, second;
};

/* SQLite's file format, 4.2. */
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

/* Where in its frame a byte of the log is; -1 in the header. */
static int64_t offset_in_frame(const struct checked_file *log, int64_t at)
{
	return at < LOG_HEADER_BYTES ? -1 : (at - LOG_HEADER_BYTES) % frame_bytes(log);
}

static int read_real(struct checked_file *log, void *buffer, int bytes, int64_t at)
{
	sqlite3_file *real = real_file(log);

	return real->pMethods->xRead(real, buffer, bytes, at);
}

/* The checksum that a frame goes on from. */
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
	/* A page that changes again before its transaction ends; SQLite then writes all headers from there on again. */
	if (!is_appended && (error = read_real(log, frame, FRAME_HEADER_BYTES, frame_at)))
		return error;
	memcpy(frame + FRAME_HEADER_BYTES, page, bytes);
	set_checksum(frame + FRAME_HEADER_BYTES, bytes, big_endian(frame));
	if (!is_appended)
		return real->pMethods->xWrite(real, frame + FRAME_HEADER_BYTES, bytes, frame_at + FRAME_HEADER_BYTES);
	error = sums_before(log, frame_at, &sums, &is_big_endian);
	if (error)
		return error;
	sums = add_words(sums, frame, CHECKED_BYTES, is_big_endian);
	sums = add_words(sums, frame + FRAME_HEADER_BYTES, bytes, is_big_endian);
	set_big_endian(frame + FRAME_CHECKSUM_AT, sums.first);
	set_big_endian(frame + FRAME_CHECKSUM_AT + 4, sums.second);
	return real->pMethods->xWrite(real, frame, FRAME_HEADER_BYTES + bytes, frame_at);
}

int log_write(sqlite3_file *base, const void *buffer, int bytes, sqlite3_int64 at)
{
	struct checked_file *log = (struct checked_file *)base;
	sqlite3_file *real = real_file(log);
	int64_t offset;

	if (!log->database->sets || at < LOG_HEADER_BYTES) {
		log->header_at = -1;
		return real->pMethods->xWrite(real, buffer, bytes, at);
	}
	if (log->database->page_bytes == 0)
		return SQLITE_IOERR_WRITE;
	offset = offset_in_frame(log, at);
	if (offset == 0 && bytes == FRAME_HEADER_BYTES) {
		log->header_at = at;
		memcpy(log->header, buffer, bytes);
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

	/* The page that says that pages are guarded may be in the log alone. */
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
	/* Anything else is read to be compared with its checksum by SQLite. */
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
	memcpy(buffer, frame + offset, bytes);
	return SQLITE_OK;
}
