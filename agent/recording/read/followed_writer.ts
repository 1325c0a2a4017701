/** Follows what a newer writer may do to the file of an open reader: add columns, or replace it. */
import type Database from 'better-sqlite3';
import { corrupt, RecordingError } from '../format/errors.ts';
import { STORED_COLUMNS } from '../format/pieces.ts';
import type { ColumnLocations } from './segment.ts';

const RECORDING_ID_NOW = "SELECT value FROM meta WHERE key = 'recording_id'";

const COLUMN_NAMES = 'SELECT name, column_id, storage, piece FROM column_name';

interface Opened {
  path: string;
  recordingId: string;
}

export interface FollowedWriter {
  /** Must be called before the file is read; the other methods answer as of the last call. */
  follow(): void;
  /** A number that changes whenever another connection has committed. */
  version(): number;
  /** The same number, read now. */
  newestVersion(): number;
  locations(): ColumnLocations;
  isReplaced(): boolean;
}

export function followedWriter(database: Database.Database, { path, recordingId }: Opened): FollowedWriter {
  const dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck();
  const currentId = database.prepare<[], string>(RECORDING_ID_NOW).pluck();
  const lastColumn = database.prepare<[], number>('SELECT max(column_id) FROM column_name').pluck();
  const newestVersion = () => dataVersion.get()!;
  let locations = readColumnLocations(database, path);
  let seenVersion = newestVersion();
  let isReplaced = currentId.get() !== recordingId;
  return {
    follow() {
      const current = newestVersion();
      if (current === seenVersion) return;
      seenVersion = current;
      isReplaced = currentId.get() !== recordingId;
      if (lastColumn.get() !== locations.lastId) locations = readColumnLocations(database, path);
    },
    version: () => seenVersion,
    newestVersion,
    locations: () => locations,
    isReplaced: () => isReplaced,
  };
}

/** The number of a column has two bytes in a segment. */
const COLUMN_ID_MAX = 0xffff;

const isColumnId = (id: number) => Number.isInteger(id) && id > 0 && id <= COLUMN_ID_MAX;

/** Reads where this file keeps the columns that this program knows. */
function readColumnLocations(database: Database.Database, path: string): ColumnLocations & { lastId: number } {
  const ids = new Map<string, number>();
  const pieces = new Map<string, number>();
  let lastId = 0;
  // A column that is missing in the list would read as one that the file never had.
  const check = database.prepare<[], string>("PRAGMA main.integrity_check('column_name')").pluck();
  if (check.get() !== 'ok') throw corrupt('its list of columns cannot be read');
  const rows = database.prepare<[], [string, number, string, number]>(COLUMN_NAMES).raw();
  for (const [name, id, storage, piece] of rows.iterate()) {
    if (!isColumnId(id)) throw corrupt(`it has a column with the number ${id}, which no recording has`);
    lastId = Math.max(lastId, id);
    const column = STORED_COLUMNS.find((candidate) => candidate.name === name);
    if (!column) continue;
    if (column.storage !== storage) {
      const message = `${path} keeps ${name} as ${storage}, this kreplay as ${column.storage}: use the one that wrote it`;
      throw new RecordingError('unsupported_format', message);
    }
    ids.set(name, id);
    pieces.set(name, piece);
  }
  if (!ids.has('event_type')) {
    throw new RecordingError('recording_missing', `${path} is just being created: try again in a moment`);
  }
  return { ids, pieces, lastId };
}
