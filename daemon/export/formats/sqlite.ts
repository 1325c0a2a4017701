/**
 * Exports to an SQLite database with one row per event. The table `events` has a column for every field of every type.
 * Each type has a view with only its own columns. `kreplay sql` has the same tables.
 *
 * Integers are exact. SQLite's integers are signed, so a value above 2^63 - 1 is stored as text. For this, an unsigned
 * column has no declared type: with a numeric type, SQLite would round the text to a REAL.
 */

import { statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { EVENT_TYPES } from '../../../bpf/schema/index.ts';
import { I64_MAX } from '../../base/bigints.ts';
import { readEventChunks } from '../../store/blocks/event.ts';
import type { EventWriter, Surroundings } from '../encoder.ts';
import { EVENT_COLUMNS, type FlatType, type FlatValue, listTypeColumns } from '../flat_columns.ts';

const DECLARED = { text: 'TEXT', integer: 'INTEGER', unsigned: '' } as const satisfies Record<FlatType, string>;

const BESIDE_EVENTS = `
CREATE TABLE losses (
  from_ns,
  to_ns,
  cause TEXT NOT NULL,
  event_type TEXT,
  lost INTEGER NOT NULL
);

-- Wall clock = boot clock + offset, from boot_ns on.
CREATE TABLE clock (
  boot_ns INTEGER NOT NULL,
  offset_ns INTEGER NOT NULL,
  kind TEXT NOT NULL,
  suspended_ns INTEGER NOT NULL
);`;

const INDEXES = `
-- Windows of time.
CREATE INDEX events_by_time ON events (timestamp_ns);

-- One transaction's events in order.
CREATE INDEX events_by_transaction ON events (transaction_id, timestamp_ns);`;

export function openSqliteWriter(path: string, { losses, clockSteps }: Surroundings): EventWriter {
  const database = new Database(path);
  // A file that is not complete is discarded, so it needs no journal.
  database.pragma('journal_mode = OFF');
  database.pragma('synchronous = OFF');
  database.exec(`BEGIN; ${createEvents()} ${BESIDE_EVENTS}`);
  const addEvent = database.prepare(`INSERT INTO events VALUES (${EVENT_COLUMNS.map(() => '?').join(', ')})`);
  const addLoss = database.prepare('INSERT INTO losses VALUES (?, ?, ?, ?, ?)');
  const addStep = database.prepare('INSERT INTO clock VALUES (?, ?, ?, ?)');
  return {
    write(scanned) {
      for (const events of readEventChunks(scanned)) {
        for (const event of events) addEvent.run(EVENT_COLUMNS.map((column) => toStorable(column.getValue(event))));
      }
    },
    finish() {
      for (const { fromNs, toNs, cause, eventType, count } of losses())
        addLoss.run(toStorable(fromNs), toStorable(toNs), cause, eventType, count);
      for (const { bootNs, offsetNs, kind, suspendedNs } of clockSteps)
        addStep.run(bootNs, offsetNs, kind, suspendedNs);
      database.exec(`${INDEXES} ${EVENT_TYPES.map(createView).join('\n')} COMMIT`);
    },
    close: () => void database.close(),
    bytes: () => statSync(path).size,
  };
}

/**
 * Converts a value for SQLite. A bigint above SQLite's integer range becomes text. A number becomes a bigint, because
 * SQLite would store a number as a REAL.
 */
export function toStorable(value: FlatValue): string | bigint | null {
  if (typeof value === 'number') return BigInt(value);
  return typeof value === 'bigint' && value > I64_MAX ? value.toString() : value;
}

function createEvents(): string {
  const columns = EVENT_COLUMNS.map(({ name, type }) => `"${name}" ${DECLARED[type]}`.trim());
  return `CREATE TABLE events (\n  ${columns.join(',\n  ')}\n);`;
}

function createView(eventType: string): string {
  const names = listTypeColumns(eventType).map(({ name }) => `"${name}"`);
  return `CREATE VIEW ${eventType} AS\nSELECT ${names.join(', ')}\nFROM events\nWHERE event_type = '${eventType}';`;
}
