/** Reads a recording, also while a writer adds to it. */
import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { NumberedBlock } from '../../bpf/schema/block.ts';
import { COLUMNS } from '../../bpf/schema/columns.ts';
import { SEGMENT_ROWS_MAX } from './codec/encode_segment.ts';
import { RecordingError, toRecordingError, withRecordingErrors } from './errors.ts';
import { type EventFilter, resolveFilter } from './event_filter.ts';
import { checkFormat, FORMAT_VERSION, fromStoredMax } from './format.ts';
import { gather, wantedColumns } from './gather.ts';
import { type Lookup, openLookup } from './lookup.ts';
import { type EventKey, scanBlocks } from './scan.ts';
import { openSegment } from './segment.ts';
import { openSegmentIndex } from './segment_index.ts';
import { openSideReader, type SideReader } from './side_reader.ts';
import { openTransactions, type Transactions } from './transactions.ts';

const META = "SELECT key, value FROM meta WHERE key IN ('recording_id', 'node', 'boot_id', 'machine_id', 'created_ns')";

const EXTENT = `
SELECT min(min_timestamp_ns), max(max_timestamp_ns), coalesce(sum(event_count), 0)
FROM segment`;

const COLUMN_NAMES = 'SELECT name, column_id, storage FROM column_name';

/** How long to wait for a writer that creates or closes the file. */
const BUSY_TIMEOUT_MS = 2000;

export interface RecordingInfo {
  recordingId: string;
  node: string;
  bootId: string;
  machineId: string;
  formatVersion: number;
  createdNs: bigint;
  /** Starts of the first and the last event; null while there is none. */
  firstTimestampNs: bigint | null;
  lastTimestampNs: bigint | null;
  eventCount: number;
}

export interface ScanRequest {
  filter?: EventFilter;
  order?: 'asc' | 'desc';
  /** Only events that come after this one in the order. */
  after?: EventKey;
  limit?: number;
  /** 4096 unless told. */
  blockRowsMax?: number;
  /** `event_type` and `timestamp_ns` are always there. */
  columns?: readonly string[] | 'all';
}

export interface RecordingReader
  extends Pick<Lookup, 'name' | 'file' | 'context' | 'services'>,
    SideReader,
    Transactions {
  info(): RecordingInfo;
  scan(request: ScanRequest): Generator<NumberedBlock>;
  event(number: bigint): NumberedBlock | undefined;
  nodes(): string[];
  close(): void;
}

export function openReader(path: string): RecordingReader {
  if (!existsSync(path)) {
    throw new RecordingError('recording_missing', `there is no recording at ${path}: start the agent, it creates it`);
  }
  let database: Database.Database | undefined;
  try {
    database = new Database(path, { readonly: true, timeout: BUSY_TIMEOUT_MS });
    checkFormat(database, path);
    return readerOf(database, path);
  } catch (error) {
    database?.close();
    throw toRecordingError(error, path);
  }
}

function readerOf(database: Database.Database, path: string): RecordingReader {
  const meta = new Map(database.prepare<[], [string, string | bigint]>(META).raw().safeIntegers().all());
  const node = String(meta.get('node'));
  const extent = database.prepare<[], [bigint | null, bigint | null, bigint]>(EXTENT).raw().safeIntegers();
  const dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck();
  const columnIds = readColumnIds(database, path);
  const lookup = openLookup(database);
  const index = openSegmentIndex(database);
  const guarded = <Arguments extends unknown[], Result>(work: (...args: Arguments) => Result) => {
    return (...args: Arguments) => withRecordingErrors(path, () => work(...args));
  };
  const source = {
    index,
    columnIds,
    inTransaction: <T>(work: () => T) => withRecordingErrors(path, () => database.transaction(work)()),
    dataVersion: () => dataVersion.get()!,
  };
  const guard = <Methods extends object>(methods: Methods): Methods =>
    Object.fromEntries(Object.entries(methods).map(([name, method]) => [name, guarded(method)])) as Methods;

  return guard({
    ...openSideReader(database),
    ...openTransactions(database, lookup),
    name: lookup.name,
    file: lookup.file,
    context: lookup.context,
    services: lookup.services,
    nodes: () => [node],
    info() {
      const [first, last, count] = extent.get()!;
      return {
        recordingId: String(meta.get('recording_id')),
        node,
        bootId: String(meta.get('boot_id')),
        machineId: String(meta.get('machine_id')),
        formatVersion: FORMAT_VERSION,
        createdNs: BigInt(meta.get('created_ns') ?? 0),
        firstTimestampNs: first,
        lastTimestampNs: last === null ? null : fromStoredMax(last),
        eventCount: Number(count),
      };
    },
    scan({
      filter = {},
      order = 'asc',
      after,
      limit = Number.POSITIVE_INFINITY,
      blockRowsMax = SEGMENT_ROWS_MAX,
      columns = 'all',
    }) {
      const resolved = resolveFilter(filter, lookup, node);
      const wanted = wantedColumns(columns);
      if (!resolved) return none();
      return scanBlocks(source, { filter: resolved, order, after, limit, blockRowsMax, columns: wanted });
    },
    event: (number) =>
      source.inTransaction(() => {
        if (number < 0n || number > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
        const found = index.containing(Number(number));
        const data = found && index.data(found);
        if (!data) return undefined;
        const segment = openSegment(found.firstNumber, data, columnIds);
        return gather([{ segment, rows: Uint32Array.of(Number(number) - found.firstNumber) }], COLUMNS, () => {});
      }),
    close: () => void database.close(),
  } satisfies RecordingReader);
}

/** Ids of the columns that this program knows, in this file. */
function readColumnIds(database: Database.Database, path: string): Map<string, number> {
  const ids = new Map<string, number>();
  for (const [name, id, storage] of database.prepare<[], [string, number, string]>(COLUMN_NAMES).raw().iterate()) {
    const column = COLUMNS.find((candidate) => candidate.name === name);
    if (!column) continue;
    if (column.storage !== storage) {
      const message = `${path} keeps ${name} as ${storage}, this kreplay as ${column.storage}: use the one that wrote it`;
      throw new RecordingError('unsupported_format', message);
    }
    ids.set(name, id);
  }
  return ids;
}

function* none(): Generator<NumberedBlock> {}

export type { EventFilter, EventKey };
