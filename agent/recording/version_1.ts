/** Format version 1: read through views that add what it lacks, and changed into the current version by a writer. */
import type Database from 'better-sqlite3';
import { COLUMNS } from '../../bpf/schema/columns.ts';
import { pieceOf } from './codec/pieces.ts';

/** Views of this connection only; the file stays as it is. Names of views hide those of tables. */
const VIEWS = `
CREATE TEMP VIEW column_name AS SELECT *, 0 AS piece FROM main.column_name;
CREATE TEMP VIEW segment AS
SELECT *, NULL AS end_number, 0 AS name_end, 0 AS file_end, 0 AS context_end FROM main.segment;
CREATE TEMP VIEW segment_piece AS SELECT 0 AS piece_key, x'' AS data WHERE false;
CREATE TEMP VIEW transaction_summary AS
SELECT *, 0 AS last_number FROM main.transaction_summary;
CREATE TEMP VIEW pin AS SELECT '' AS transaction_id, 0 AS from_ns, 0 AS pinned_ns WHERE false;
CREATE TEMP VIEW clock AS SELECT *, 0 AS suspended_ns FROM main.clock;
`;

const CHANGES = `
ALTER TABLE column_name ADD COLUMN piece INTEGER NOT NULL DEFAULT 0;
ALTER TABLE segment ADD COLUMN end_number INTEGER;
ALTER TABLE segment ADD COLUMN name_end INTEGER NOT NULL DEFAULT 0;
ALTER TABLE segment ADD COLUMN file_end INTEGER NOT NULL DEFAULT 0;
ALTER TABLE segment ADD COLUMN context_end INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transaction_summary ADD COLUMN last_number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE clock ADD COLUMN suspended_ns INTEGER NOT NULL DEFAULT 0;
CREATE TABLE segment_piece (
  piece_key INTEGER PRIMARY KEY,
  data BLOB NOT NULL
) STRICT;
CREATE TABLE pin (
  transaction_id TEXT PRIMARY KEY,
  from_ns INTEGER NOT NULL,
  pinned_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`;

export function readVersion1(database: Database.Database): void {
  database.exec(VIEWS);
}

/** Runs in a transaction of its own: killed in between, the file is as it was. */
export function upgradeVersion1(database: Database.Database): void {
  database
    .transaction(() => {
      database.exec(CHANGES);
      const setPiece = database.prepare('UPDATE column_name SET piece = ? WHERE name = ?');
      for (const column of COLUMNS) setPiece.run(pieceOf(column), column.name);
      database.pragma('user_version = 2');
    })
    .immediate();
}
