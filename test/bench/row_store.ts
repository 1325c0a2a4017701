/**
 * The recording's peer: SQLite used in the straightforward way. One row per event, every field an ordinary column,
 * indexes by time and by context, and dictionaries for texts as the recording has them.
 */
import Database from 'better-sqlite3';
import type { Block, ColumnArray } from '../../bpf/schema/block.ts';
import { COLUMNS } from '../../bpf/schema/columns.ts';
import { EVENTS, type EventDefinition } from '../../bpf/schema/index.ts';
import { ABSENT_PID, RARE, SLOWEST_NS } from './event_stream.ts';
import type { RareFilter, StoreReads, StoreWriter } from './store_sides.ts';

/** A request of several owners would need a table for them: only the first has columns here, in favour of the rows. */
const ROW_COLUMNS = COLUMNS.filter(({ name }) => !/origins_[1-9]/.test(name));

const CREATE_TABLES = `
CREATE TABLE event (
  event_number INTEGER PRIMARY KEY,
  ${ROW_COLUMNS.map(({ name }) => `"${name}" INTEGER`).join(',\n  ')}
) STRICT;
CREATE INDEX event_by_time ON event (timestamp_ns);
CREATE INDEX event_by_context ON event (context) WHERE context > 0;
CREATE TABLE name (name_id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE file (file_id INTEGER PRIMARY KEY, path TEXT NOT NULL, kind TEXT NOT NULL) STRICT;
CREATE TABLE context (
  context_id INTEGER PRIMARY KEY,
  transaction_id TEXT,
  trace_id TEXT,
  span_id TEXT
) STRICT;
CREATE INDEX context_by_transaction ON context (transaction_id);
`;

export function openRowWriter(path: string): StoreWriter {
  const database = new Database(path);
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = NORMAL');
  database.exec(CREATE_TABLES);
  const addRows = EVENTS.map((event) => rowInserter(database, event));
  const addName = database.prepare('INSERT INTO name VALUES (NULL, ?)');
  const addFile = database.prepare('INSERT INTO file VALUES (NULL, ?, ?)');
  const addContext = database.prepare('INSERT INTO context VALUES (NULL, ?, ?, ?)');
  const names = new Map<string, number>();
  const idOf = ({ lastInsertRowid }: Database.RunResult) => Number(lastInsertRowid);

  const begin = () => {
    if (!database.inTransaction) database.exec('BEGIN');
  };
  return {
    nameId(text) {
      begin();
      const id = names.get(text) ?? idOf(addName.run(text));
      names.set(text, id);
      return id;
    },
    fileId(filePath, kind) {
      begin();
      return idOf(addFile.run(filePath, kind));
    },
    contextId({ transactionId, traceId, spanId }) {
      begin();
      return idOf(addContext.run(transactionId, traceId, spanId));
    },
    append(block) {
      begin();
      for (const add of addRows) add(block);
    },
    flush() {
      if (database.inTransaction) database.exec('COMMIT');
    },
    close() {
      if (database.inTransaction) database.exec('COMMIT');
      database.close();
    },
  };
}

/** Returns a function that inserts a block's rows of one type, each with the columns of that type only. */
function rowInserter(database: Database.Database, event: EventDefinition): (block: Block) => void {
  const columns = ROW_COLUMNS.filter(({ eventType }) => eventType === 0 || eventType === event.id);
  const names = columns.map(({ name }) => `"${name}"`).join(', ');
  const insert = database.prepare(`INSERT INTO event (${names}) VALUES (${columns.map(() => '?').join(', ')})`);
  const row: (number | bigint)[] = new Array(columns.length);
  return (block) => {
    const types = block.columns.get('event_type')!;
    const arrays = columns.map(({ name }) => signed(block.columns.get(name)!));
    for (let at = 0, place = 0; at < block.rowCount; at++) {
      if (types[at] !== event.id) continue;
      for (let i = 0; i < columns.length; i++) row[i] = arrays[i]![columns[i]!.eventType === 0 ? at : place]!;
      insert.run(row);
      place++;
    }
  };
}

/** SQLite's integers are signed: an unknown value, all ones, becomes -1. */
function signed(values: ColumnArray): ColumnArray {
  if (!(values instanceof BigUint64Array)) return values;
  return new BigInt64Array(values.buffer, values.byteOffset, values.length);
}

const TRANSACTION = `
SELECT event.*
FROM context JOIN event ON event.context = context.context_id AND event.context > 0
WHERE transaction_id = ?
ORDER BY timestamp_ns, event_number`;

/** Reads in the order of the table, which costs least. */
const TWO_COLUMNS = 'SELECT pid, cpu FROM event';

const LONGER = 'SELECT * FROM event WHERE duration_ns >= ?';
const OF_PROCESS = 'SELECT * FROM event WHERE pid = ?';
const OF_SERVICE = 'SELECT * FROM event WHERE service IN (SELECT name_id FROM name WHERE text = ?)';

const PAGE = 'SELECT * FROM event WHERE timestamp_ns >= ? ORDER BY timestamp_ns, event_number LIMIT ?';
const WINDOW = 'SELECT * FROM event WHERE timestamp_ns >= ? AND timestamp_ns < ? ORDER BY timestamp_ns, event_number';
const LATEST = 'SELECT * FROM event ORDER BY timestamp_ns DESC, event_number DESC LIMIT ?';
const EVERYTHING = 'SELECT * FROM event ORDER BY timestamp_ns, event_number';

const COUNTED_AT_ONCE = 4096;

export function openRowReads(path: string): StoreReads {
  const database = new Database(path, { readonly: true });
  // A time in nanoseconds since the epoch needs all 64 bits.
  const rows = (sql: string) => database.prepare(sql).raw().safeIntegers();
  const [transaction, page, window, latest] = [TRANSACTION, PAGE, WINDOW, LATEST].map(rows);
  const longer = rows(LONGER);
  const rareEvents: Record<RareFilter, () => unknown[]> = {
    duration: () => longer.all(RARE.minDurationNs),
    pid: () => rows(OF_PROCESS).all(RARE.pid),
    service: () => rows(OF_SERVICE).all(RARE.service),
    nothing: () => rows(OF_PROCESS).all(ABSENT_PID),
  };
  const twoColumns = database.prepare<[], [number, number]>(TWO_COLUMNS).raw();
  return {
    transaction: (id) => transaction!.all(id).length,
    rareEvents: (by) => rareEvents[by]().length,
    slowest: () => longer.all(SLOWEST_NS).length,
    page: (fromNs, limit) => page!.all(fromNs, limit).length,
    window: (fromNs, toNs) => window!.all(fromNs, toNs).length,
    latest: (limit) => latest!.all(limit).length,
    twoColumns() {
      let count = 0;
      let seen = 0;
      for (const [pid, cpu] of twoColumns.iterate()) {
        seen += pid + cpu;
        count++;
      }
      return seen > 0 ? count : 0;
    },
    *everything() {
      let count = 0;
      for (const _row of rows(EVERYTHING).iterate()) {
        if (++count < COUNTED_AT_ONCE) continue;
        yield count;
        count = 0;
      }
      yield count;
    },
    close: () => void database.close(),
  };
}
