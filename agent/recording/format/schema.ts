/** The tables of a recording, which the writer creates and the reader expects. FORMAT.md documents the whole format. */
import type Database from 'better-sqlite3';
import { I64_MAX, U64_MAX } from '../../../daemon/base/bigints.ts';
import { describeDamagedLog, findDamagedFrame, hasChecksums } from './database.ts';
import { createCorruptError, RecordingError } from './errors.ts';

/**
 * The maximum length of a schema statement, in characters. A longer statement is read as an empty text, which the check
 * rejects. All statements of kreplay are shorter.
 */
const SQL_MAX = 4096;

const OBJECTS_MAX = 64;

const OBJECTS = `
SELECT type, name, CASE WHEN length(sql) > ${SQL_MAX} THEN '' ELSE sql END
FROM main.sqlite_schema
LIMIT ${OBJECTS_MAX + 1}`;

const TABLE = /^CREATE TABLE "?(\w+)"? \(([^()]*(?:\([\w, ]*\)[^()]*)?)\)\s*(STRICT(?:, WITHOUT ROWID)?)$/;

/** "krpl" in ASCII. `file` and SQLite's own tools show this id. */
export const APPLICATION_ID = 0x6b72706c;
export const FORMAT_VERSION = 1;

/**
 * The page size. Pages are small because the write-ahead log contains whole pages, and each flush changes the last page
 * of several tables. On a quiet host, half this size would save a sixth of the log, but on a busy host the log would
 * grow by a fifth.
 */
export const PAGE_BYTES = 1024;

/** Key of `meta` for the transaction that a bundle was exported for. A bundle of a time does not have the key. */
export const EXPORTED_TRANSACTION = 'exported_transaction';

export const CREATE_TABLES = `
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Names of the columns inside segments, and the piece that each is in.
CREATE TABLE column_name (
  column_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  storage TEXT NOT NULL,
  piece INTEGER NOT NULL
) STRICT;

-- Dictionaries: ids begin at 1, 0 stands for none. A text may have several ids.
CREATE TABLE name (
  name_id INTEGER PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;

-- Filters by service and command.
CREATE INDEX name_by_text ON name (text);

-- The names that are services.
CREATE TABLE service (
  name_id INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE file (
  file_id INTEGER PRIMARY KEY,
  path TEXT NOT NULL,
  kind TEXT NOT NULL
) STRICT;

-- transaction_key: the first context_id of the same transaction, 0 when it has none.
CREATE TABLE context (
  context_id INTEGER PRIMARY KEY,
  transaction_key INTEGER NOT NULL,
  transaction_id TEXT,
  trace_id TEXT,
  span_id TEXT
) STRICT;

-- Contexts by transaction_id and trace_id, in three levels: context_hash.ts says what a key is.
CREATE TABLE context_hash (
  key INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE context_hash_2 (
  key INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE context_hash_3 (
  key INTEGER PRIMARY KEY
) STRICT;

-- Events by arrival, first_number and the event_count - 1 that follow; end_number is there when numbers are missing in
-- between: it is behind the last one. sealed = 0: a part, merged with others soon.
-- Everything that lets a query skip a segment stands before the blobs, so that skipping does not read them.
-- name_from ... context_end: the dictionary ids that came next when its first event was gathered, and after its last one.
-- facts: what columns contain, see codec/column_facts.ts; null for a part, and where the writer did not know of it.
-- data: all columns, or empty when they are in pieces.
CREATE TABLE segment (
  first_number INTEGER PRIMARY KEY,
  sealed INTEGER NOT NULL,
  event_count INTEGER NOT NULL,
  min_timestamp_ns INTEGER NOT NULL,
  max_timestamp_ns INTEGER NOT NULL,
  max_duration_ns INTEGER NOT NULL,
  type_mask INTEGER NOT NULL,
  end_number INTEGER,
  name_from INTEGER NOT NULL,
  file_from INTEGER NOT NULL,
  context_from INTEGER NOT NULL,
  name_end INTEGER NOT NULL,
  file_end INTEGER NOT NULL,
  context_end INTEGER NOT NULL,
  services BLOB NOT NULL,
  facts BLOB,
  data BLOB NOT NULL
) STRICT;

-- piece_key: first_number * 256 + piece, see format/pieces.ts.
CREATE TABLE segment_piece (
  piece_key INTEGER PRIMARY KEY,
  data BLOB NOT NULL
) STRICT;

-- Scans in ascending and descending order. Parts are few: they stay out, and a flush does not touch these pages.
CREATE INDEX segment_by_start ON segment (min_timestamp_ns, first_number) WHERE sealed = 1;
CREATE INDEX segment_by_end ON segment (max_timestamp_ns, first_number) WHERE sealed = 1;

-- How far a segment can reach into the time of others: where a scan of a window has to begin.
CREATE INDEX segment_by_span ON segment (max_timestamp_ns - min_timestamp_ns) WHERE sealed = 1;

-- Sealed segments that hold a context, as owner or as origin.
CREATE TABLE segment_context (
  context_id INTEGER NOT NULL,
  first_number INTEGER NOT NULL,
  PRIMARY KEY (context_id, first_number)
) STRICT, WITHOUT ROWID;

-- services: name ids, as u32. last_number: of the event that arrived last. trace_id: of the first context.
-- first_timestamp_ns, last_end_ns, slowest_*: of its own events, which its caller waited for; any, 0 and any when it has
-- none. written_back_*: the requests that carried its data later.
CREATE TABLE transaction_summary (
  transaction_key INTEGER PRIMARY KEY,
  first_timestamp_ns INTEGER NOT NULL,
  last_end_ns INTEGER NOT NULL,
  event_count INTEGER NOT NULL,
  error_count INTEGER NOT NULL,
  slowest_duration_ns INTEGER NOT NULL,
  slowest_number INTEGER NOT NULL,
  last_number INTEGER NOT NULL,
  transaction_id TEXT NOT NULL,
  trace_id TEXT,
  services BLOB NOT NULL,
  written_back_count INTEGER NOT NULL,
  written_back_bytes INTEGER NOT NULL,
  written_back_end_ns INTEGER NOT NULL
) STRICT;

-- Transactions that retention keeps, with all events of the node from from_ns to to_ns, the transaction's first event.
CREATE TABLE pin (
  transaction_id TEXT PRIMARY KEY,
  from_ns INTEGER NOT NULL,
  to_ns INTEGER NOT NULL,
  pinned_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE loss (
  loss_id INTEGER PRIMARY KEY,
  from_ns INTEGER NOT NULL,
  to_ns INTEGER NOT NULL,
  cause TEXT NOT NULL,
  event_type TEXT,
  count INTEGER NOT NULL,
  scope TEXT NOT NULL DEFAULT '',
  sums TEXT NOT NULL DEFAULT ''
) STRICT;

-- Losses of one transaction, and losses that are no parts of others.
CREATE INDEX loss_by_scope ON loss (scope);

-- wall clock = boot clock + offset, from boot_ns on. suspended_ns: how long the node slept before that.
CREATE TABLE clock (
  clock_id INTEGER PRIMARY KEY,
  boot_ns INTEGER NOT NULL,
  offset_ns INTEGER NOT NULL,
  kind TEXT NOT NULL,
  suspended_ns INTEGER NOT NULL
) STRICT;
`;

const schema = createSchemaCheck(CREATE_TABLES);

/** Packs name ids into a blob. */
export function packIds(ids: Uint32Array): Buffer {
  return Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength);
}

export function unpackIds(blob: Buffer): Uint32Array {
  if (!Buffer.isBuffer(blob)) throw createCorruptError('a list of names is malformed');
  // The ids are copied because the buffer's own memory need not be aligned to four bytes.
  const ids = new Uint32Array(blob.length >>> 2);
  new Uint8Array(ids.buffer).set(blob.subarray(0, ids.byteLength));
  return ids;
}

/**
 * Converts a value to its stored form. SQLite has no unsigned integers, so values above its largest integer are stored
 * as that integer. Comparisons then stay correct.
 */
export function toStored(value: bigint): bigint {
  return value > I64_MAX ? I64_MAX : value < 0n ? 0n : value;
}

/**
 * Decodes a stored upper bound. The largest SQLite integer may stand for any larger value, so it decodes to the largest
 * u64.
 */
export function decodeStoredMax(value: bigint): bigint {
  return value === I64_MAX ? U64_MAX : value;
}

/**
 * Returns whether the database has no tables yet: its creator is still at work, or was killed. Throws if the tables may
 * be in an unreadable log.
 */
export function isBlank(database: Database.Database): boolean {
  const tables = database.prepare<[], number>('SELECT count(*) FROM sqlite_schema').pluck().get();
  const isEmpty = tables === 0 && database.pragma('application_id', { simple: true }) === 0;
  const frame = isEmpty ? findDamagedFrame(database) : undefined;
  if (frame !== undefined) throw createCorruptError(describeDamagedLog(frame));
  return isEmpty;
}

/**
 * Checks that the database is a recording of the version that this program reads and writes; throws an error if it is
 * not.
 */
export function checkFormat(database: Database.Database, path: string): void {
  if (isBlank(database)) {
    throw new RecordingError(
      'recording_missing',
      `${path} is empty: start the agent, which creates the recording; ` +
        'if this is a copy of a recording in use, its events are in the -wal file of the original: use kreplay export',
    );
  }
  if (database.pragma('application_id', { simple: true }) !== APPLICATION_ID) {
    throw new RecordingError('not_a_recording', `${path} is not a kreplay recording: give the path of one`);
  }
  const version = Number(database.pragma('user_version', { simple: true }));
  if (version !== FORMAT_VERSION) {
    throw new RecordingError(
      'unsupported_format',
      `${path} has format version ${version}, this kreplay reads ${FORMAT_VERSION}: use the kreplay that wrote it, or a newer one`,
    );
  }
  const foreign = schema.describeForeign(database);
  if (foreign !== undefined) {
    throw new RecordingError('not_a_recording', `${path} has a ${foreign}, which no kreplay makes: do not trust it`);
  }
  if (!hasChecksums(database)) throw createCorruptError('its pages have lost their checksums');
}

/**
 * SQL for the number after the last event. It reads `meta` too: retention may have removed the last segment, and in a
 * bundle, the segment that begins last need not contain the last event.
 */
export const END_NUMBER = `
SELECT max(
  coalesce(CAST((SELECT value FROM meta WHERE key = 'next_number') AS INTEGER), 0),
  coalesce((SELECT coalesce(end_number, first_number + event_count) FROM segment ORDER BY first_number DESC LIMIT 1), 0)
)`;

/*
 * Checks that a file has only tables that kreplay creates. A recording may come from an untrusted source, and SQLite
 * executes expressions in its schema: generated columns, indexes, checks and views.
 */

interface TableShape {
  parts: ReadonlySet<string>;
  options: string;
}

interface SchemaCheck {
  /** Describes a table or other object in the file that kreplay does not create; returns undefined if there is none. */
  describeForeign(database: Database.Database): string | undefined;
}

/** Returns a check against `createTables`, the SQL that creates the tables. */
function createSchemaCheck(createTables: string): SchemaCheck {
  const statements = createTables
    .replaceAll(/^\s*--.*$/gm, '')
    .split(';')
    .map((text) => text.trim());
  const indexes = new Set(statements.filter((text) => text.startsWith('CREATE INDEX')));
  const tables = Map.groupBy(
    statements.map(parseCreateTable).filter((table) => table !== undefined),
    ({ name }) => name,
  );

  function isOurs(type: unknown, name: unknown, sql: unknown): boolean {
    if (type === 'index') return sql === null ? String(name).startsWith('sqlite_autoindex_') : indexes.has(String(sql));
    if (type !== 'table' || typeof sql !== 'string') return false;
    const found = parseCreateTable(sql);
    if (!found || found.name !== name) return false;
    return (tables.get(found.name) ?? []).some(
      ({ options, parts }) => options === found.options && [...found.parts].every((part) => parts.has(part)),
    );
  }

  return {
    describeForeign(database) {
      const objects = database.prepare<[], [unknown, unknown, unknown]>(OBJECTS).raw().all();
      if (objects.length > OBJECTS_MAX) return 'too many tables';
      const found = objects.find(([type, name, sql]) => !isOurs(type, name, sql));
      return found && `${String(found[0]).slice(0, 20)} ${String(found[1]).slice(0, 60)}`;
    },
  };
}

function parseCreateTable(sql: string): ({ name: string } & TableShape) | undefined {
  const [, name, body, options] = TABLE.exec(sql) ?? [];
  if (name === undefined || body === undefined || options === undefined) return undefined;
  // Commas inside the parentheses of a key do not separate columns.
  const parts = body.split(/,(?![^(]*\))/).map((part) => part.replaceAll(/\s+/g, ' ').trim());
  return { name, parts: new Set(parts), options };
}
