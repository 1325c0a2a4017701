/** Support for older formats: a reader uses views that add what they lack, and a writer upgrades the file. */
import type Database from 'better-sqlite3';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { hasChecksums, setChecksums } from './database.ts';
import { pieceOf } from './pieces.ts';

const SEGMENT_IDS = ['name_from', 'file_from', 'context_from', 'name_end', 'file_end', 'context_end'];

type Views = Readonly<Record<string, string>>;

/** Columns for summaries that do not separate own events from write-back. */
const UNDIVIDED = 'NULL AS written_back_count, 0 AS written_back_bytes, 0 AS written_back_end_ns';

/** Hashes of contexts are all in groups of the first level. */
const VERSION_4: Views = {
  context_hash_2: 'SELECT 0 AS key WHERE false',
  context_hash_3: 'SELECT 0 AS key WHERE false',
};

const VERSION_3: Views = {
  ...VERSION_4,
  segment: 'SELECT *, NULL AS facts FROM main.segment',
};

const VERSION_2: Views = {
  ...VERSION_3,
  transaction_summary: `SELECT *, ${UNDIVIDED} FROM main.transaction_summary`,
};

const VERSION_1: Views = {
  ...VERSION_4,
  column_name: 'SELECT *, 0 AS piece FROM main.column_name',
  segment: `SELECT *, NULL AS facts, NULL AS end_number, ${SEGMENT_IDS.map((name) => `0 AS ${name}`).join(', ')} FROM main.segment`,
  segment_piece: "SELECT 0 AS piece_key, x'' AS data WHERE false",
  transaction_summary: `
SELECT summary.*, 0 AS last_number, transaction_id, trace_id, ${UNDIVIDED}
FROM main.transaction_summary AS summary JOIN main.context ON context_id = summary.transaction_key`,
  pin: "SELECT '' AS transaction_id, 0 AS from_ns, 0 AS to_ns, 0 AS pinned_ns WHERE false",
  // Version 1 has other hashes, so contexts are compared one by one.
  context_hash: 'SELECT 0 AS key WHERE false',
  clock: 'SELECT *, 0 AS suspended_ns FROM main.clock',
};

/**
 * Temporary views of a connection, by format version; they hide tables of the same names, and the file stays unchanged.
 */
const VIEWS: readonly Views[] = [{}, VERSION_1, VERSION_2, VERSION_3, VERSION_4];

/**
 * Changes version 1 into version 2. `last_number` is filled in because summaries without it would be the first to be
 * removed.
 */
const TO_VERSION_2 = `
ALTER TABLE column_name ADD COLUMN piece INTEGER NOT NULL DEFAULT 0;
ALTER TABLE segment ADD COLUMN end_number INTEGER;
${SEGMENT_IDS.map((name) => `ALTER TABLE segment ADD COLUMN ${name} INTEGER NOT NULL DEFAULT 0;`).join('\n')}
ALTER TABLE transaction_summary ADD COLUMN last_number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transaction_summary ADD COLUMN transaction_id TEXT NOT NULL DEFAULT '';
ALTER TABLE transaction_summary ADD COLUMN trace_id TEXT;
UPDATE transaction_summary SET
  last_number = (SELECT coalesce(max(first_number + event_count), 0) FROM segment),
  (transaction_id, trace_id) = (
    SELECT coalesce(transaction_id, ''), trace_id FROM context WHERE context_id = transaction_key
  )
WHERE EXISTS (SELECT 1 FROM context WHERE context_id = transaction_key);
ALTER TABLE clock ADD COLUMN suspended_ns INTEGER NOT NULL DEFAULT 0;
DROP TABLE context_hash;
CREATE TABLE context_hash (
  key INTEGER PRIMARY KEY
) STRICT;
CREATE TABLE segment_piece (
  piece_key INTEGER PRIMARY KEY,
  data BLOB NOT NULL
) STRICT;
CREATE TABLE pin (
  transaction_id TEXT PRIMARY KEY,
  from_ns INTEGER NOT NULL,
  to_ns INTEGER NOT NULL,
  pinned_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`;

const TO_VERSION_3 = `
ALTER TABLE transaction_summary ADD COLUMN written_back_count INTEGER;
ALTER TABLE transaction_summary ADD COLUMN written_back_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transaction_summary ADD COLUMN written_back_end_ns INTEGER NOT NULL DEFAULT 0;
`;

/** Nothing is computed for segments that are already there: queries read them as before. */
const TO_VERSION_4 = 'ALTER TABLE segment ADD COLUMN facts BLOB;';

/** The groups that are already there are merged step by step while the writer runs. */
const TO_VERSION_5 = `
CREATE TABLE context_hash_2 (
  key INTEGER PRIMARY KEY
) STRICT;
CREATE TABLE context_hash_3 (
  key INTEGER PRIMARY KEY
) STRICT;
`;

/** Creates the views for a file of `version`, which is at most the current one. */
export function readOlder(database: Database.Database, version: number): void {
  for (const [name, select] of Object.entries(VIEWS[version] ?? {})) {
    database.exec(`CREATE TEMP VIEW ${name} AS ${select}`);
  }
}

/** Drops the views; must be called once a writer has upgraded the file. */
export function forgetOlder(database: Database.Database, version: number): void {
  for (const name of Object.keys(VIEWS[version] ?? {})) database.exec(`DROP VIEW temp.${name}`);
}

/**
 * Upgrades in steps, each of which is atomic if the writer is killed. VACUUM rewrites every page of a file without
 * checksums: into a file in SQLite's temporary folder, and from there into the log and the database, which takes twice
 * the file's size in additional space. The result has the layout of a new file.
 */
export function upgradeOlder(database: Database.Database, version: number): void {
  if (version === 1) database.transaction(toVersion2).immediate(database);
  if (!hasChecksums(database)) {
    setChecksums(database);
    database.pragma('auto_vacuum = INCREMENTAL');
    database.exec('VACUUM');
  }
  if (version < 3) database.transaction(toVersion3).immediate(database);
  if (version < 4) database.transaction(toVersion4).immediate(database);
  database.transaction(toVersion5).immediate(database);
}

function toVersion2(database: Database.Database): void {
  database.exec(TO_VERSION_2);
  const setPiece = database.prepare('UPDATE column_name SET piece = ? WHERE name = ?');
  for (const column of COLUMNS) setPiece.run(pieceOf(column), column.name);
  database.pragma('user_version = 2');
}

function toVersion3(database: Database.Database): void {
  database.exec(TO_VERSION_3);
  database.pragma('user_version = 3');
}

function toVersion5(database: Database.Database): void {
  database.exec(TO_VERSION_5);
  database.pragma('user_version = 5');
}

function toVersion4(database: Database.Database): void {
  database.exec(TO_VERSION_4);
  database.pragma('user_version = 4');
}
