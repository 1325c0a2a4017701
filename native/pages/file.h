#ifndef KREPLAY_PAGES_FILE_H
#define KREPLAY_PAGES_FILE_H

#include "checksum.h"

#include <sqlite3ext.h>
#include <stddef.h>

/*
 * A database file or its write-ahead log, as SQLite sees it. The file of the real VFS lies right behind.
 *
 * SQLite gives a connection to one thread at a time, and each connection has files of its own.
 */
struct checked_file {
	sqlite3_file base;
	/* Pages that are read end with checksums. */
	bool checks;
	/* Pages that are written get them; also while the file is only becoming one that has them. */
	bool sets;
	/* 0 while it is not known. */
	uint32_t page_bytes;
	/* Of a log: its database; NULL of a database. */
	struct checked_file *database;
	/* Of a database: how many pages it has, as its first page said last; 0 while it is not known. */
	uint32_t page_count;
	/* Of a database: its log, while it is open. */
	struct checked_file *log;
	/* Of a log: the frame header that was written last, and where; -1 when its page has followed. */
	int64_t header_at;
	uint8_t header[24];
	uint8_t *scratch;
	uint32_t scratch_bytes;
};

static inline sqlite3_file *real_file(struct checked_file *file)
{
	return (sqlite3_file *)(file + 1);
}

/*
 * SQLite takes a read that fails with EIO for a broken file system, and then reports a damaged database, as if the file
 * would stay so: SQLITE_IOERR_CORRUPTFS, since 3.35.
 */
static inline int read_real(struct checked_file *file, void *buffer, int bytes, int64_t at)
{
	sqlite3_file *real = real_file(file);
	const int error = real->pMethods->xRead(real, buffer, bytes, at);

	return error == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : error;
}

extern const sqlite3_io_methods database_methods, log_methods;

/* Learns from page 1, or from its first 100 bytes; false when it denies what is known. */
bool note_header(struct checked_file *database, const uint8_t *page);
/* Learns from page 1, whole, how many pages there are. */
void note_page_count(struct checked_file *database, const uint8_t *page);
/* At least so many bytes; NULL when there is no memory. */
uint8_t *scratch_of(struct checked_file *file, uint32_t bytes);

int log_read(sqlite3_file *file, void *buffer, int bytes, sqlite3_int64 at);
int log_write(sqlite3_file *file, const void *buffer, int bytes, sqlite3_int64 at);
int log_close(sqlite3_file *file);
int file_close(sqlite3_file *file);

/*
 * The first frame of the log, from 1, that keeps a commit from being read which stands behind it, or is that commit; 0
 * when all commits can be read, or the log is not open. An SQLite error code is the result.
 */
int unreadable_frame(struct checked_file *database, int64_t *frame);

#endif
