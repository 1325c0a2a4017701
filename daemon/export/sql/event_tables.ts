/**
 * The event tables: one table of all events, and one table for each event type. Conditions on their columns are
 * converted to the filter of a scan, and the scan reads only the columns that the query uses. Parameters are hidden
 * columns; a query sets them with `=` or as arguments: `events('order-1')`.
 */
import type Database from 'better-sqlite3';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { parseTime, resolveTime, TIME_FORMATS } from '../../base/time.ts';
import type { RecordingBlock } from '../../store/blocks/scanned_block.ts';
import type { EventFilter } from '../../store/store.ts';
import { ExportError } from '../errors.ts';
import { EVENT_COLUMNS, type FlatColumn, listTypeColumns } from '../flat_columns.ts';
import type { Source } from '../source.ts';
import {
  type ColumnCondition,
  defineNativeTables,
  type Operand,
  type RowBatch,
  type RowBatches,
  type RowOrder,
} from './native_tables.ts';
import { type Narrowed, PUSHED } from './pushed_conditions.ts';
import { buildVectorColumn, type VectorColumn } from './vector_columns.ts';

const PARAMETERS = ['of_transaction', 'since', 'until', 'of_service'];

interface EventSqlTable {
  name: string;
  columns: readonly FlatColumn[];
  vectors: readonly VectorColumn[];
  filter: EventFilter;
}

function buildEventTable(
  name: string,
  columns: readonly FlatColumn[],
  types: readonly number[],
  filter: EventFilter,
): EventSqlTable {
  return { name, columns, vectors: columns.map((column) => buildVectorColumn(column, types)), filter };
}

const TABLES: readonly EventSqlTable[] = [
  buildEventTable(
    'events',
    EVENT_COLUMNS,
    EVENTS.map(({ id }) => id),
    {},
  ),
  ...EVENTS.map(({ id, name }) => buildEventTable(name, listTypeColumns(name), [id], { eventTypes: [name] })),
];

export function defineEventTables(database: Database.Database, source: Source, nowNs: bigint): void {
  const definitions = TABLES.map(({ name, columns }) => ({
    name,
    columns: [
      ...columns.map((column) => ({
        name: column.name,
        isParameter: false,
        operators: PUSHED[column.name]?.operators ?? '',
      })),
      ...PARAMETERS.map((parameter) => ({ name: parameter, isParameter: true, operators: '' })),
    ],
    orderColumn: columns.findIndex((column) => column.name === 'timestamp_ns'),
  }));
  defineNativeTables(
    database,
    definitions,
    (table, order, used, conditions) => open(source, TABLES[table]!, { order, used, conditions, nowNs }),
    (table, column, type, key) => TABLES[table]!.vectors[column]!.getKeyText!(source.dictionary, type, key),
  );
}

interface TableQuery {
  order: RowOrder;
  used: number[];
  conditions: ColumnCondition[];
  nowNs: bigint;
}

function open(source: Source, table: EventSqlTable, { order, used, conditions, nowNs }: TableQuery): RowBatches {
  const vectors = used.map((column) => table.vectors[column]!);
  const filter = narrowFilter(table, conditions, nowNs);
  const blocks = filter ? readBlocks(source, filter, order, vectors) : readNoBlocks();
  return {
    next() {
      const { done, value } = blocks.next();
      return done ? undefined : readBatch(value, vectors);
    },
    close: () => void blocks.return(),
  };
}

function readBatch(scanned: RecordingBlock, vectors: readonly VectorColumn[]): RowBatch {
  const { rowCount, columns, numbers } = scanned.block;
  const types = columns.get('event_type')!;
  return { rowCount, columns: vectors.map((vector) => vector.read(scanned)), types, numbers };
}

const EVENT_IDS = new Map(EVENTS.map(({ name, id }) => [name, id]));

function* readNoBlocks(): Generator<RecordingBlock, void> {}

function* readBlocks(
  { reader, dictionary }: Source,
  { eventNumber, ...filter }: NonNullable<Narrowed>,
  order: RowOrder,
  vectors: readonly VectorColumn[],
): Generator<RecordingBlock, void> {
  if (eventNumber !== undefined) {
    const block = reader.event(eventNumber);
    const { eventTypes } = filter;
    const isOfTable = block && (!eventTypes || eventTypes.some((name) => block.typeCounts[EVENT_IDS.get(name)!]));
    if (isOfTable) yield { block, dictionary };
    return;
  }
  const columns = [...new Set(vectors.flatMap(({ needs }) => needs))];
  for (const block of reader.scan({ filter, order, columns, reusesMemory: true })) yield { block, dictionary };
}

/** Narrows the table's filter by the conditions; returns null if no row can satisfy them. */
function narrowFilter({ columns, filter }: EventSqlTable, conditions: ColumnCondition[], nowNs: bigint): Narrowed {
  let narrowed: Narrowed = filter;
  for (const [place, operator, operand] of conditions) {
    // In a join, the operand may be NULL. No comparison with NULL is true, not even that of NULL with NULL.
    if (operand === null || !narrowed) return null;
    const column = columns[place];
    narrowed = column
      ? PUSHED[column.name]!.narrow(narrowed, operator, operand)
      : addParameter(narrowed, PARAMETERS[place - columns.length]!, operand as Operand, nowNs);
  }
  // A look-up by event id would ignore parameters, and SQLite does not check them again. Therefore, a query with
  // parameters always scans.
  if (narrowed && conditions.some(([place]) => place >= columns.length)) delete narrowed.eventNumber;
  return narrowed;
}

function addParameter(filter: EventFilter, name: string, operand: Operand, nowNs: bigint): EventFilter {
  const text = String(operand);
  if (name === 'of_transaction') return { ...filter, transactionId: text };
  if (name === 'of_service') return { ...filter, services: [text] };
  return name === 'since'
    ? { ...filter, fromNs: parseParameterTime(name, text, nowNs) }
    : { ...filter, toNs: parseParameterTime(name, text, nowNs) };
}

function parseParameterTime(name: string, value: string, nowNs: bigint): bigint {
  const time = parseTime(value);
  if (!time) throw new ExportError(`${name}: ${TIME_FORMATS}`);
  return resolveTime(time, nowNs);
}
