/* Reads and writes of the database file: verifies the checksum of each page read, and sets that of each page written.
 */
#include "file.h"

#include <string.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT3

enum {
	HEADER_BYTES = 100,
	CHANGE_COUNTER_AT = 24,
	CHANGE_COUNTER_BYTES = 16,
	PAGE_COUNT_AT = 28,
	PAGE_COUNT_VALID_AT = 92,
	VERSIONS_AT = 18,
	LIBRARY_AT = 96,
	READS_MAX = 4,
	AHEAD_BYTES_MIN = 4096,
	AHEAD_BYTES_MAX = 65536,
	READ_AGAIN_AFTER_US = 500,
	APPLICATION_ID = 0x6b72706c,
	/* Releases of SQLite that may have written a recording. */
	LIBRARY_MINOR_MIN = 45,
	LIBRARY_MINOR_MAX = 75,
	LIBRARY_PATCH_MAX = 9,
};

/* The page count is valid only for the change counter that it was written with; some programs do not write it. */
void note_page_count(struct checked_file *database, const uint8_t *page)
{
	const bool is_valid = big_endian(page + CHANGE_COUNTER_AT) == big_endian(page + PAGE_COUNT_VALID_AT);

	database->page_count = is_valid ? big_endian(page + PAGE_COUNT_AT) : 0;
}

/*
 * The offsets are from SQLite's file format, section 1.3. A recording must have checksums: otherwise one flipped bit in
 * the byte that indicates them would disable all verification.
 */
bool note_header(struct checked_file *database, const uint8_t *page)
{
	const uint32_t page_bytes = page[16] << 8 | page[17];

	if (memcmp(page, "SQLite format 3", 16) != 0)
		return true;
	if (!database->checks)
		database->page_bytes = page_bytes == 1 ? PAGE_BYTES_MAX : page_bytes;
	if (page[20] != CHECKSUM_BYTES) {
		const bool is_recording = big_endian(page + 68) == APPLICATION_ID;

		return !database->checks && !is_recording;
	}
	database->page_bytes = page_bytes == 1 ? PAGE_BYTES_MAX : page_bytes;
	database->checks = database->sets = is_page_size(database->page_bytes);
	return true;
}

uint8_t *scratch_of(struct checked_file *file, uint32_t bytes)
{
	if (file->scratch_bytes < bytes) {
		sqlite3_free(file->scratch);
		file->scratch = sqlite3_malloc64(bytes);
		file->scratch_bytes = file->scratch ? bytes : 0;
	}
	return file->scratch;
}

/*
 * Whether the file ends within a page, or before a page that the database has: SQLite would read the missing bytes as
 * zeros. A page past the page count is not cut: SQLite also reads pages that it is about to add.
 */
static bool is_cut(struct checked_file *file, uint32_t number)
{
	const sqlite3_int64 at = (sqlite3_int64)(number - 1) * file->page_bytes;
	sqlite3_file *real = real_file(file);
	sqlite3_int64 bytes = 0;

	if (real->pMethods->xFileSize(real, &bytes) != SQLITE_OK || bytes > at)
		return true;
	return bytes > 0 && number <= file->page_count;
}

/*
 * Reads a page, and some that follow it when the page before it was read last: pages are small, and the blobs of
 * segments take many in a row. Bytes that were read ahead are used within one transaction only: until it ends, nobody
 * writes to pages that it may read from the database file. A checkpoint copies no frame that is newer than the oldest
 * reader (walCheckpoint() in SQLite's wal.c), and older frames are read from the log.
 */
static int read_sequential(struct checked_file *file, uint8_t *page, int64_t at)
{
	const int64_t bytes = file->page_bytes;
	const bool follows = at == file->next_at;

	file->next_at = at + bytes;
	if (at >= file->ahead_at && at + bytes <= file->ahead_at + file->ahead_bytes) {
		memcpy(page, file->ahead + (at - file->ahead_at), bytes);
		return SQLITE_OK;
	}
	if (!follows || bytes > AHEAD_BYTES_MIN) {
		file->ahead_next = AHEAD_BYTES_MIN;
		return read_real(file, page, bytes, at);
	}
	if (!file->ahead)
		file->ahead = sqlite3_malloc(AHEAD_BYTES_MAX);
	/* Near its end, the file has fewer bytes, and they are read one page at a time. */
	if (!file->ahead || read_real(file, file->ahead, file->ahead_next, at) != SQLITE_OK) {
		file->ahead_bytes = 0;
		file->ahead_next = AHEAD_BYTES_MIN;
		return read_real(file, page, bytes, at);
	}
	file->ahead_at = at;
	file->ahead_bytes = file->ahead_next;
	if (file->ahead_next < AHEAD_BYTES_MAX)
		file->ahead_next *= 2;
	memcpy(page, file->ahead, bytes);
	return SQLITE_OK;
}

/* Called whenever the file may have changed since its bytes were read ahead. */
static void forget_ahead(struct checked_file *file)
{
	file->ahead_bytes = 0;
	file->next_at = -1;
}

static void add_to_counter(uint8_t *counter, uint32_t change)
{
	const uint32_t value = htobe32(big_endian(counter) + change);

	memcpy(counter, &value, sizeof(value));
}

/*
 * Whether the first page is sound with the version number of another release of SQLite, which the header has too: the
 * first writer after an upgrade changes it together with the rest. The number is 3,MMM,PPP for release 3.M.P.
 */
static bool is_sound_of_library(uint8_t *page, uint32_t bytes)
{
	for (uint32_t minor = LIBRARY_MINOR_MIN; minor <= LIBRARY_MINOR_MAX; minor++) {
		for (uint32_t patch = 0; patch <= LIBRARY_PATCH_MAX; patch++) {
			const uint32_t number = htobe32(3000000 + minor * 1000 + patch);

			memcpy(page + LIBRARY_AT, &number, sizeof(number));
			if (is_sound(page, bytes, 1))
				return true;
		}
	}
	return false;
}

/*
 * Whether the first page has the checksum that it had before or after its header last changed. SQLite begins and ends
 * the use of a log by writing the first page to the file, with other versions in its header and a change counter that
 * is one higher. That write is in no log and no journal: a loss of power may leave a header of one state and a checksum
 * of the other, because they are in different sectors of the disk. Both states have the same data.
 */
static bool is_sound_but_for_log(const struct checked_file *file, const uint8_t *page)
{
	uint8_t *other = sqlite3_malloc64(file->page_bytes);
	bool is_found = false;

	for (int state = 0; other && !is_found && state < 6; state++) {
		const uint32_t change = state / 2 - 1;

		memcpy(other, page, file->page_bytes);
		memset(other + VERSIONS_AT, 1 + state % 2, 2);
		add_to_counter(other + CHANGE_COUNTER_AT, change);
		add_to_counter(other + PAGE_COUNT_VALID_AT, change);
		is_found = is_sound(other, file->page_bytes, 1) || is_sound_of_library(other, file->page_bytes);
	}
	sqlite3_free(other);
	return is_found;
}

/*
 * Without a lock, a page that another process is writing may be torn: SQLite reads the first page before it knows
 * whether there is a log. Such a page is whole shortly afterwards, while a damaged one stays damaged: it is read again.
 */
static int read_page(struct checked_file *file, uint8_t *page, uint32_t number)
{
	const sqlite3_int64 at = (sqlite3_int64)(number - 1) * file->page_bytes;

	for (int reads = 1;; reads++) {
		const int error = read_sequential(file, page, at);

		if (error && !(error == SQLITE_IOERR_SHORT_READ && is_cut(file, number)))
			return error;
		if (!error && is_sound(page, file->page_bytes, number))
			return SQLITE_OK;
		if (reads == READS_MAX && !error && number == 1 && is_sound_but_for_log(file, page))
			return SQLITE_OK;
		if (reads == READS_MAX)
			break;
		forget_ahead(file);
		usleep(READ_AGAIN_AFTER_US);
	}
	sqlite3_log(SQLITE_IOERR_DATA, "page %u does not match its checksum", number);
	return SQLITE_IOERR_DATA;
}

/* Reads less than a page, or across pages, which SQLite does for blobs on overflow pages. */
static int read_part(struct checked_file *file, uint8_t *buffer, int bytes, sqlite3_int64 at)
{
	uint8_t *page = scratch_of(file, file->page_bytes);
	int short_read = SQLITE_OK;

	if (!page)
		return SQLITE_IOERR_NOMEM;
	while (bytes > 0) {
		const uint32_t offset = at % file->page_bytes;
		const int left = file->page_bytes - offset;
		const int part = bytes < left ? bytes : left;
		const int error = read_page(file, page, at / file->page_bytes + 1);

		if (error == SQLITE_IOERR_SHORT_READ)
			short_read = error;
		else if (error)
			return error;
		memcpy(buffer, page + offset, part);
		buffer += part;
		bytes -= part;
		at += part;
	}
	return short_read;
}

static int database_read(sqlite3_file *base, void *buffer, int bytes, sqlite3_int64 at)
{
	struct checked_file *file = (struct checked_file *)base;

	if (at == 0 && bytes >= HEADER_BYTES) {
		const int error = read_real(file, buffer, bytes, at);

		if (error == SQLITE_IOERR_SHORT_READ && bytes > HEADER_BYTES)
			note_header(file, buffer);
		/* For a file that was empty a moment ago SQLite reads a page of another size, and then reads again. */
		if (error == SQLITE_IOERR_SHORT_READ && file->checks && (uint32_t)bytes == file->page_bytes)
			return SQLITE_IOERR_DATA;
		if (error)
			return error;
		/* SQLite reads the header alone, before it locks the file, and the page afterwards. */
		if (!note_header(file, buffer) && bytes > HEADER_BYTES)
			return SQLITE_IOERR_DATA;
		note_page_count(file, buffer);
		if (bytes == HEADER_BYTES)
			return SQLITE_OK;
	}
	/* The change counter only shows SQLite whether its cache is current. */
	if (!file->checks || (at == CHANGE_COUNTER_AT && bytes == CHANGE_COUNTER_BYTES))
		return read_real(file, buffer, bytes, at);
	if ((uint32_t)bytes == file->page_bytes && at % bytes == 0)
		return read_page(file, buffer, at / bytes + 1);
	return read_part(file, buffer, bytes, at);
}

static int database_write(sqlite3_file *base, const void *buffer, int bytes, sqlite3_int64 at)
{
	struct checked_file *file = (struct checked_file *)base;
	sqlite3_file *real = real_file(file);
	uint8_t *page;

	forget_ahead(file);
	if (at == 0 && bytes >= HEADER_BYTES) {
		note_header(file, buffer);
		note_page_count(file, buffer);
	}
	if (!file->sets)
		return real->pMethods->xWrite(real, buffer, bytes, at);
	if (!is_page_size(bytes) || at % bytes != 0)
		return SQLITE_IOERR_WRITE;
	page = scratch_of(file, bytes);
	if (!page)
		return SQLITE_IOERR_NOMEM;
	file->page_bytes = bytes;
	memcpy(page, buffer, bytes);
	set_checksum(page, bytes, at / bytes + 1);
	return real->pMethods->xWrite(real, page, bytes, at);
}

int file_close(sqlite3_file *base)
{
	struct checked_file *file = (struct checked_file *)base;
	sqlite3_file *real = real_file(file);

	sqlite3_free(file->scratch);
	file->scratch = NULL;
	sqlite3_free(file->ahead);
	file->ahead = NULL;
	return real->pMethods->xClose(real);
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 bytes)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	forget_ahead((struct checked_file *)base);
	return real->pMethods->xTruncate(real, bytes);
}

static int file_sync(sqlite3_file *base, int flags)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xSync(real, flags);
}

static int file_size(sqlite3_file *base, sqlite3_int64 *bytes)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xFileSize(real, bytes);
}

static int file_lock(sqlite3_file *base, int lock)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	forget_ahead((struct checked_file *)base);
	return real->pMethods->xLock(real, lock);
}

static int file_unlock(sqlite3_file *base, int lock)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xUnlock(real, lock);
}

static int file_check_reserved_lock(sqlite3_file *base, int *result)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xCheckReservedLock(real, result);
}

static int file_control(sqlite3_file *base, int operation, void *argument)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xFileControl(real, operation, argument);
}

static int file_sector_size(sqlite3_file *base)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xSectorSize(real);
}

static int file_device_characteristics(sqlite3_file *base)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xDeviceCharacteristics(real);
}

static int file_shm_map(sqlite3_file *base, int page, int bytes, int extend, void volatile **memory)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xShmMap(real, page, bytes, extend, memory);
}

static int file_shm_lock(sqlite3_file *base, int offset, int count, int flags)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	/* A transaction begins and ends with such a lock. */
	forget_ahead((struct checked_file *)base);
	return real->pMethods->xShmLock(real, offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *base)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	real->pMethods->xShmBarrier(real);
}

static int file_shm_unmap(sqlite3_file *base, int delete)
{
	sqlite3_file *real = real_file((struct checked_file *)base);

	return real->pMethods->xShmUnmap(real, delete);
}

/* Version 2 has no xFetch, which would return pages of mapped memory without a read and thus unverified. */
#define FILE_METHODS(close, read, write)                                                                               \
	{                                                                                                              \
		.iVersion = 2, .xClose = close, .xRead = read, .xWrite = write, .xTruncate = file_truncate,            \
		.xSync = file_sync, .xFileSize = file_size, .xLock = file_lock, .xUnlock = file_unlock,                \
		.xCheckReservedLock = file_check_reserved_lock, .xFileControl = file_control,                          \
		.xSectorSize = file_sector_size, .xDeviceCharacteristics = file_device_characteristics,                \
		.xShmMap = file_shm_map, .xShmLock = file_shm_lock, .xShmBarrier = file_shm_barrier,                   \
		.xShmUnmap = file_shm_unmap,                                                                           \
	}

const sqlite3_io_methods database_methods = FILE_METHODS(file_close, database_read, database_write);
const sqlite3_io_methods log_methods = FILE_METHODS(log_close, log_read, log_write);
