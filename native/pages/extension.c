/*
 * An SQLite extension that gives every page of a recording a checksum: a VFS on top of the default one, which becomes
 * the new default of the process. Databases without room for checksums, and all other files, pass through unchanged.
 *
 * It serves all connections and threads of the process; SQLite keeps it loaded.
 */
#include "file.h"

#include <pthread.h>
#include <string.h>

SQLITE_EXTENSION_INIT1

/* The page at this offset is never written: SQLite uses its bytes for locks. */
#define LOCK_BYTES_AT 0x40000000

/* More than the length of any of kreplay's CREATE TABLE statements. */
#define SCHEMA_LENGTH_MAX 16384

static sqlite3_vfs *real_vfs;

/*
 * Set while a copy is written, because VACUUM may write other pages before the first one, which indicates the
 * checksums.
 */
static _Thread_local bool copies_have_checksums;

static int open_file(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *base, int flags, int *flags_out)
{
	struct checked_file *file = (struct checked_file *)base;
	sqlite3_file *database = NULL;
	int error;

	(void)vfs;
	if (flags & SQLITE_OPEN_WAL)
		database = sqlite3_database_file_object(name);
	if (!(flags & SQLITE_OPEN_MAIN_DB) && !(database && database->pMethods == &database_methods))
		return real_vfs->xOpen(real_vfs, name, base, flags, flags_out);
	memset(file, 0, sizeof(*file));
	file->header_at = file->next_at = -1;
	file->database = (struct checked_file *)database;
	file->sets = !database && (flags & SQLITE_OPEN_CREATE) && copies_have_checksums;
	error = real_vfs->xOpen(real_vfs, name, real_file(file), flags, flags_out);
	/* SQLite closes a file that has methods, even after a failure. */
	if (!real_file(file)->pMethods)
		return error;
	if (file->database)
		file->database->log = file;
	base->pMethods = database ? &log_methods : &database_methods;
	return error;
}

static int delete_file(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs;
	return real_vfs->xDelete(real_vfs, name, sync);
}

static int access_file(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
	(void)vfs;
	return real_vfs->xAccess(real_vfs, name, flags, result);
}

static int full_path(sqlite3_vfs *vfs, const char *name, int room, char *path)
{
	(void)vfs;
	return real_vfs->xFullPathname(real_vfs, name, room, path);
}

static void *open_library(sqlite3_vfs *vfs, const char *name)
{
	(void)vfs;
	return real_vfs->xDlOpen(real_vfs, name);
}

static void library_error(sqlite3_vfs *vfs, int room, char *message)
{
	(void)vfs;
	real_vfs->xDlError(real_vfs, room, message);
}

static void (*library_symbol(sqlite3_vfs *vfs, void *library, const char *name))(void)
{
	(void)vfs;
	return real_vfs->xDlSym(real_vfs, library, name);
}

static void close_library(sqlite3_vfs *vfs, void *library)
{
	(void)vfs;
	real_vfs->xDlClose(real_vfs, library);
}

static int randomness(sqlite3_vfs *vfs, int bytes, char *output)
{
	(void)vfs;
	return real_vfs->xRandomness(real_vfs, bytes, output);
}

static int sleep_us(sqlite3_vfs *vfs, int us)
{
	(void)vfs;
	return real_vfs->xSleep(real_vfs, us);
}

static int last_error(sqlite3_vfs *vfs, int room, char *message)
{
	(void)vfs;
	return real_vfs->xGetLastError(real_vfs, room, message);
}

static int current_time(sqlite3_vfs *vfs, double *julian_day)
{
	(void)vfs;
	return real_vfs->xCurrentTime(real_vfs, julian_day);
}

static int current_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *julian_ms)
{
	(void)vfs;
	return real_vfs->xCurrentTimeInt64(real_vfs, julian_ms);
}

static sqlite3_vfs checking_vfs = {
    .iVersion = 2,
    .zName = "kreplay",
    .xOpen = open_file,
    .xDelete = delete_file,
    .xAccess = access_file,
    .xFullPathname = full_path,
    .xDlOpen = open_library,
    .xDlError = library_error,
    .xDlSym = library_symbol,
    .xDlClose = close_library,
    .xRandomness = randomness,
    .xSleep = sleep_us,
    .xGetLastError = last_error,
    .xCurrentTime = current_time,
    .xCurrentTimeInt64 = current_time_ms,
};

static struct checked_file *main_file(sqlite3_context *context)
{
	sqlite3_file *file = NULL;

	sqlite3_file_control(sqlite3_context_db_handle(context), "main", SQLITE_FCNTL_FILE_POINTER, &file);
	return file && file->pMethods == &database_methods ? (struct checked_file *)file : NULL;
}

/* set_checksums(): enables checksums in a file without pages, or before a VACUUM, which writes all pages again. */
static void set_checksums_of_file(sqlite3_context *context, int count, sqlite3_value **values)
{
	sqlite3 *connection = sqlite3_context_db_handle(context);
	struct checked_file *file = main_file(context);
	int reserved = CHECKSUM_BYTES;

	(void)count, (void)values;
	if (!file || sqlite3_file_control(connection, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved)) {
		sqlite3_result_error(context, "this database cannot have checksums", -1);
		return;
	}
	file->sets = true;
}

/* checksums(): whether the pages of the file have checksums. */
static void has_checksums(sqlite3_context *context, int count, sqlite3_value **values)
{
	const struct checked_file *file = main_file(context);

	(void)count, (void)values;
	sqlite3_result_int(context, file && file->checks);
}

/* set_checksums_of_copies(whether): sets whether the copies that this thread writes with VACUUM INTO have checksums. */
static void set_checksums_of_copies(sqlite3_context *context, int count, sqlite3_value **values)
{
	(void)context, (void)count;
	copies_have_checksums = sqlite3_value_int(values[0]);
}

/* limit_length(bytes): limits the length of any text, blob or row of this connection. */
static void limit_length(sqlite3_context *context, int count, sqlite3_value **values)
{
	(void)count;
	sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, sqlite3_value_int(values[0]));
}

static int file_read(struct checked_file *file, uint8_t *page, sqlite3_int64 at)
{
	return file->base.pMethods->xRead(&file->base, page, file->page_bytes, at);
}

/*
 * damaged_pages(most): the first damaged pages of the database file as a JSON list. damaged_frame() checks the log. A
 * page that the log replaces is not damaged: a loss of power while the log is copied leaves such pages torn.
 */
static void damaged_pages(sqlite3_context *context, int count, sqlite3_value **values)
{
	struct checked_file *file = main_file(context);
	sqlite3_str *list = sqlite3_str_new(sqlite3_context_db_handle(context));
	sqlite3_int64 bytes = 0, pages = 0, found = 0;
	uint8_t *page = NULL, *logged = NULL;
	int error = SQLITE_OK;

	(void)count;
	if (file && file->checks) {
		error = file->base.pMethods->xFileSize(&file->base, &bytes);
		pages = bytes / file->page_bytes;
		page = sqlite3_malloc64(file->page_bytes);
		logged = sqlite3_malloc64(pages / 8 + 1);
		if (!error && (!page || !logged))
			error = SQLITE_NOMEM;
	}
	if (!error && logged) {
		memset(logged, 0, pages / 8 + 1);
		error = mark_logged_pages(file, logged, pages);
	}
	sqlite3_str_appendchar(list, 1, '[');
	for (sqlite3_int64 i = 0; !error && i < pages && found < sqlite3_value_int64(values[0]); i++) {
		const sqlite3_int64 at = i * file->page_bytes;

		if (logged[i / 8] >> i % 8 & 1 || at == LOCK_BYTES_AT || file_read(file, page, at) == SQLITE_OK)
			continue;
		sqlite3_str_appendf(list, found++ ? ",%lld" : "%lld", i + 1);
	}
	sqlite3_str_appendchar(list, 1, ']');
	sqlite3_free(page);
	sqlite3_free(logged);
	sqlite3_result_text(context, sqlite3_str_finish(list), -1, sqlite3_free);
	if (error)
		sqlite3_result_error_code(context, error);
}

/* damaged_frame(): the first frame of the log that makes commits unreadable; NULL when there is none. */
static void damaged_frame(sqlite3_context *context, int count, sqlite3_value **values)
{
	struct checked_file *file = main_file(context);
	int64_t frame = 0;
	int error;

	(void)count, (void)values;
	error = file ? unreadable_frame(file, &frame) : SQLITE_OK;
	if (error)
		sqlite3_result_error_code(context, error);
	else if (frame > 0)
		sqlite3_result_int64(context, frame);
}

/*
 * logged_pages(frame): page numbers of the sound frames of the log from that one on, as a JSON list; negative if the
 * database has other content for the page.
 */
static void logged_pages(sqlite3_context *context, int count, sqlite3_value **values)
{
	struct checked_file *file = main_file(context);
	sqlite3_str *list = sqlite3_str_new(sqlite3_context_db_handle(context));
	int error;

	(void)count;
	sqlite3_str_appendchar(list, 1, '[');
	error = file ? list_copied(file, sqlite3_value_int64(values[0]), list) : SQLITE_OK;
	sqlite3_str_appendchar(list, 1, ']');
	if (error) {
		sqlite3_free(sqlite3_str_finish(list));
		sqlite3_result_error_code(context, error);
		return;
	}
	sqlite3_result_text(context, sqlite3_str_finish(list), -1, sqlite3_free);
}

static int registered;

static void register_vfs(void)
{
	real_vfs = sqlite3_vfs_find(NULL);
	checking_vfs.szOsFile = (int)sizeof(struct checked_file) + real_vfs->szOsFile;
	checking_vfs.mxPathname = real_vfs->mxPathname;
	registered = sqlite3_vfs_register(&checking_vfs, 1);
}

__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *connection, char **message,
								  const sqlite3_api_routines *routines)
{
	/* SQLITE_DIRECTONLY: the SQL in the schema of an untrusted file must not call these functions. */
	const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static const struct {
		const char *name;
		int arguments;
		void (*call)(sqlite3_context *, int, sqlite3_value **);
	} functions[] = {
	    {"checksums", 0, has_checksums},
	    {"set_checksums", 0, set_checksums_of_file},
	    {"set_checksums_of_copies", 1, set_checksums_of_copies},
	    {"damaged_pages", 1, damaged_pages},
	    {"damaged_frame", 0, damaged_frame},
	    {"logged_pages", 1, logged_pages},
	    {"limit_length", 1, limit_length},
	};
	int error;

	(void)message;
	SQLITE_EXTENSION_INIT2(routines);
	/* This limits the schema, which SQLite reads and parses with the first statement. */
	sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, SCHEMA_LENGTH_MAX);
	pthread_once(&once, register_vfs);
	error = registered;
	for (size_t i = 0; !error && i < sizeof(functions) / sizeof(functions[0]); i++)
		error = sqlite3_create_function(connection, functions[i].name, functions[i].arguments, flags, NULL,
						functions[i].call, NULL, NULL);
	return error ? error : SQLITE_OK_LOAD_PERMANENTLY;
}
