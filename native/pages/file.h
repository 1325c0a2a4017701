#ifndef KREPLAY_PAGES_FILE_H
#define KREPLAY_PAGES_FILE_H

#include "checksum.h"

#include <endian.h>
#include <sqlite3ext.h>
#include <stddef.h>
#include <string.h>

/*
 * A database file or its write-ahead log, as SQLite sees it. The file object of the real VFS follows it in memory.
 *
 * It needs no locks: SQLite lets one thread at a time use a connection, and each connection has its own files.
 */
struct checked_file {
	sqlite3_file base;
	/* Pages have checksums, which are verified on reading. */
	bool checks;
	/* Pages get checksums on writing; this is also set while the file is being converted to have them. */
	bool sets;
	/* Page size; 0 while it is not known. */
	uint32_t page_bytes;
	/* For a log, its database; NULL for a database. */
	struct checked_file *database;
	/* For a database, the page count from the first page last read or written; 0 while it is not known. */
	uint32_t page_count;
	/* For a database, its log while that is open. */
	struct checked_file *log;
	/* For a log, the last frame header that SQLite has written and its offset; -1 once its page has been written.
	 */
	int64_t header_at;
	uint8_t header[24];
	/* For a log, the offset after the frames that this connection has written; 0 while there are none. */
	int64_t end_at;
	uint8_t *scratch;
	uint32_t scratch_bytes;
	/* For a database, bytes that were read ahead: `ahead_bytes` from offset `ahead_at` on; 0 if there are none. */
	uint8_t *ahead;
	uint32_t ahead_bytes;
	int64_t ahead_at;
	/* The number of bytes to read ahead next, and the offset after the page last read. */
	uint32_t ahead_next;
	int64_t next_at;
};

/* SQLite's files and logs have their integers in this order. */
static inline uint32_t big_endian(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return be32toh(value);
}

static inline sqlite3_file *real_file(struct checked_file *file)
{
	return (sqlite3_file *)(file + 1);
}

/*
 * Since 3.35 SQLite takes a read that fails with EIO for a corrupt file system (SQLITE_IOERR_CORRUPTFS), and reports a
 * damaged database, which implies permanent damage. Such a read is reported as a read error instead.
 */
static inline int read_real(struct checked_file *file, void *buffer, int bytes, int64_t at)
{
	sqlite3_file *real = real_file(file);
	const int error = real->pMethods->xRead(real, buffer, bytes, at);

	return error == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : error;
}

extern const sqlite3_io_methods database_methods, log_methods;

/* Updates the state from page 1, or from its first 100 bytes; returns false when they contradict the known state. */
bool note_header(struct checked_file *database, const uint8_t *page);
/* Updates the page count from page 1. */
void note_page_count(struct checked_file *database, const uint8_t *page);
/* Returns a buffer of at least `bytes` bytes; NULL when there is no memory. */
uint8_t *scratch_of(struct checked_file *file, uint32_t bytes);

int log_read(sqlite3_file *file, void *buffer, int bytes, sqlite3_int64 at);
int log_write(sqlite3_file *file, const void *buffer, int bytes, sqlite3_int64 at);
int log_close(sqlite3_file *file);
int file_close(sqlite3_file *file);

/*
 * Finds the first frame of the log, from 1, that makes a commit at or after it unreadable; 0 when all commits can be
 * read, or the log is not open. The result is an SQLite error code.
 */
int unreadable_frame(struct checked_file *database, int64_t *frame);
/*
 * Sets a bit for each page, from 1, that a commit in the log replaces: SQLite reads the page from there, and not from
 * the database file. The result is an SQLite error code.
 */
int mark_logged_pages(struct checked_file *database, uint8_t *bits, int64_t pages);
/*
 * Appends the page numbers of the sound frames of the log from `first` on, negative if the database has other content
 * for the page. The result is an SQLite error code.
 */
int list_copied(struct checked_file *database, int64_t first, sqlite3_str *list);

#endif
