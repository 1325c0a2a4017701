/** Reads a recording; a writer may append to the recording at the same time. */
import { existsSync, statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { LOSS_CAUSES } from '../../../bpf/schema/losses.ts';
import { U64_MAX } from '../../../daemon/base/bigints.ts';
import { findFirstPlace } from '../../../daemon/base/binary_search.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { findDamagedFrame, openDatabase } from '../format/database.ts';
import {
  createCorruptError,
  RecordingError,
  runWithRecordingErrors,
  toDamageError,
  toRecordingError,
} from '../format/errors.ts';
import {
  type ClockStep,
  type Loss,
  type LossParts,
  listScopes,
  parseReason,
  parseScope,
  parseSums,
  WHOLE_SCOPES,
  WORD_MAX,
} from '../format/losses.ts';
import { STORED_COLUMNS } from '../format/pieces.ts';
import { checkFormat, decodeStoredMax, EXPORTED_TRANSACTION, PAGE_BYTES, toStored } from '../format/schema.ts';
import { type ArrivalReader, openArrivals } from './arrivals.ts';
import { gather, selectColumns } from './assemble_block.ts';
import { type EntryCheck, openEntryCheck } from './entry_check.ts';
import { type EventCounter, openEventCounter } from './event_count.ts';
import { type EventFilter, lookForFiles, type ResolvedFilter, resolveFilter } from './event_filter.ts';
import { CACHED_MAX, type Lookup, openLookup } from './lookup.ts';
import { type RecordingKey, type ScanSource, scanBlocks, scanUnordered } from './scan.ts';
import { openSealedSegments, type SealedReader } from './sealed_segments.ts';
import {
  type ColumnLocations,
  openPieceCache,
  openSegment,
  runWithSegmentErrors,
  type Segment,
  UnreadableSegment,
} from './segment.ts';
import { isDamage, openSegmentIndex, type SegmentMeta } from './segment_index.ts';
import { checkSizes, isShort, keepUntilCommit, TEXT_MAX } from './sizes.ts';
import {
  openPinReader,
  openTransactionIndex,
  openTransactions,
  type PinReader,
  type TransactionIndex,
  type TransactionReader,
} from './transactions.ts';
import { openUnended, type UnendedReader } from './unended.ts';

const META = "SELECT key, value FROM meta WHERE key IN ('recording_id', 'node', 'boot_id', 'machine_id', 'created_ns')";

const RETAIN_BYTES = "SELECT value FROM meta WHERE key = 'retain_bytes'";

/** The form of a recording id. The check matters because the id becomes a part of file names. */
const RECORDING_ID = /^[0-9a-f]{16}$/;

const EXTENT = `
SELECT min(min_timestamp_ns), max(max_timestamp_ns), coalesce(sum(event_count), 0)
FROM segment`;

/** Time to wait for a writer that creates or closes the file. */
const BUSY_TIMEOUT_MS = 2000;

/**
 * Size of SQLite's page cache. A lookup by text seeks in each group of hashes. In large recordings, the cache keeps the
 * upper index pages of the groups.
 */
const CACHE_KIBIBYTES = 16_384;
/** Sizes of the page cache and of each dictionary's cache for a reader that reads each segment only once. */
const ONCE = { kibibytes: 2_048, entries: 16_384 };

export interface RecordingInfo {
  recordingId: string;
  node: string;
  bootId: string;
  machineId: string;
  createdNs: bigint;
  /** Size limit that the last agent used; null if there is no limit, as in a bundle. */
  retainBytes: number | null;
  /** Starts of the first and the last event; null if the recording has no events. */
  firstTimestampNs: bigint | null;
  lastTimestampNs: bigint | null;
  eventCount: number;
}

export interface RecordingScanRequest {
  filter?: EventFilter;
  /**
   * `none`: segments in any order, each with its rows in recorded order. `after`, `limit` and `blockRowsMax` are then
   * ignored.
   */
  order?: 'asc' | 'desc' | 'none';
  /** Key of an event. The scan returns only events after it in the scan's order. */
  after?: RecordingKey;
  limit?: number;
  /** Maximum number of rows of a block; 4096 by default. */
  blockRowsMax?: number;
  /** Columns to return; `event_type` and `timestamp_ns` are always included. */
  columns?: readonly string[] | 'all';
  /**
   * Whether each block reuses the memory of the previous block. The consumer must then be done with the previous block.
   */
  reusesMemory?: boolean;
  /**
   * Returns a minimum duration that may rise during the scan; for order `none` only. When the scan reads a segment, it
   * may skip events that are shorter than the minimum at that moment.
   */
  risingMinNs?: () => bigint;
}

export interface RecordingReader
  extends Pick<Lookup, 'name' | 'file' | 'context' | 'services'>,
    ArrivalReader,
    EntryCheck,
    EventCounter,
    PinReader,
    RecordedSpanReader,
    LossReader,
    LossLister,
    SealedReader,
    StateReader,
    TransactionReader,
    UnendedReader {
  readonly recordingId: string;
  readonly node: string;
  readonly transactionIndex: TransactionIndex;
  info(): RecordingInfo;
  /**
   * Returns the damage that this reader has found in the file so far. Losses that the recording itself reports as
   * damage are not included.
   */
  foundDamage(): { any: boolean; losses: Loss[] };
  /** Returns the damage to pass to other readers of this file; undefined if there is none. */
  damage(): FoundDamage | undefined;
  /** Adds the damage that another reader of this file found. */
  addDamage(found: FoundDamage): void;
  scan(request: RecordingScanRequest): Generator<NumberedBlock>;
  /**
   * Finds the files of a filter in steps. Callers do so before a scan with the filter, because the first search may
   * take long.
   */
  lookForFiles(filter: EventFilter): Generator<void, void>;
  event(number: bigint): NumberedBlock | undefined;
  nodes(): string[];
  /**
   * Returns whether the recording's id has changed since the file was opened. If so, a log next to the file belonged to
   * another recording.
   */
  isReplaced(): boolean;
  close(): void;
}

/**
 * Opens a recording for reading. `isForeign`: the file may come from an untrusted source, so the sizes of its values
 * and tables are checked once. `isDamaged`: a writer has found damage in the recording. `takesOnce`: the caller reads
 * each event only once, so the caches are small.
 */
export function openReader(
  path: string,
  { isForeign = false, isDamaged = false, takesOnce = false } = {},
): RecordingReader {
  checkFiles(path);
  let database: Database.Database | undefined;
  try {
    database = openDatabase(path, { readonly: true, timeout: BUSY_TIMEOUT_MS });
    database.pragma(`cache_size = -${takesOnce ? ONCE.kibibytes : CACHE_KIBIBYTES}`);
    checkFormat(database, path);
    if (isForeign) checkSizes(database);
    return createReader(database, path, { isDamaged, cached: takesOnce ? ONCE.entries : CACHED_MAX });
  } catch (error) {
    database?.close();
    throw openError(error, path);
  }
}

/** Reads the recording's id, its node and the time when it began. */
function readOrigin(database: Database.Database) {
  const meta = new Map(database.prepare<[], [string, string | bigint]>(META).raw().safeIntegers().all());
  const recordingId = String(meta.get('recording_id'));
  if (!RECORDING_ID.test(recordingId)) throw createCorruptError('its recording id is malformed');
  const node = String(meta.get('node'));
  if (node.length > TEXT_MAX) throw createCorruptError('the name of its node is malformed');
  const createdNs = meta.get('created_ns') ?? 0n;
  if (typeof createdNs !== 'bigint' || createdNs < 0n) throw createCorruptError('its start time is malformed');
  const bootId = String(meta.get('boot_id'));
  const machineId = String(meta.get('machine_id'));
  return { recordingId, node, bootId, machineId, createdNs };
}

interface Opening {
  isDamaged: boolean;
  /** Size of each dictionary's cache, in entries. */
  cached: number;
}

function createReader(database: Database.Database, path: string, { isDamaged, cached }: Opening): RecordingReader {
  const origin = readOrigin(database);
  const { recordingId, node } = origin;
  const retainBytes = database.prepare<[], number>(RETAIN_BYTES).pluck();
  const extent = database.prepare<[], [bigint | null, bigint | null, bigint]>(EXTENT).raw().safeIntegers();
  const writer = createFollowedWriter(database, { path, recordingId });
  const keep = keepUntilCommit(writer.version);
  const lookup = openLookup(database, keep, cached);
  const cache = openPieceCache();
  const damage = createDamageNotes();
  if (isDamaged) damage.addFailure();
  const guarded = createGuard(path, damage, followLog(database, damage, writer));
  const index = openSegmentIndex(database, damage.addEntry);
  const source: ScanSource = {
    index,
    columnIds: () => writer.locations().ids,
    open(meta, make) {
      if (damage.has(meta)) return undefined;
      const bytes = runWithSegmentErrors(meta, () => index.readBytes(meta));
      return bytes && openSegment(meta, bytes, writer.locations(), make ? { make } : { cache });
    },
    onDamaged: damage.add,
    onBlock: lookup.remember,
    runInTransaction: guarded(readTransactions(database)) as ScanSource['runInTransaction'],
    dataVersion: writer.newestVersion,
  };
  const guard = <Methods extends object>(methods: Methods): Methods =>
    Object.fromEntries(Object.entries(methods).map(([name, method]) => [name, guarded(method)])) as Methods;

  const transactionIndex = openTransactionIndex({ database, lookup, runInTransaction: source.runInTransaction });
  const side = openLossReader(database);
  const readLosses = keep(side.lossesOfScope, isShort);
  const transactions = openTransactions(database, lookup);
  const state = openStateReader(database, path);
  /**
   * Getters of dictionary entries. Entries never change and are mostly cached, so these getters skip the check for
   * changes by a writer.
   */
  const createEntryGetter = <Entry>(find: (id: number) => Entry) => {
    return (id: number) => runWithRecordingErrors(path, () => find(id));
  };
  const entries = {
    name: createEntryGetter(lookup.name),
    file: createEntryGetter(lookup.file),
    context: createEntryGetter(lookup.context),
  };
  const filters = createFilterResolver(guarded, lookup, node);
  const passed = { damage: damage.found, addDamage: damage.addFound };

  const guardedReader = guard({
    ...side,
    ...state,
    unended: keep(openUnended(database, writer.locations, lookup, damage).unended),
    ...includeDamage(damage, readLosses, state.lossTotals),
    ...transactions,
    readTransaction: keep(transactions.readTransaction),
    ...openPinReader(database),
    recordedSpan: keep(openRecordedSpan(database).recordedSpan),
    ...openArrivals(database, source, lookup, node),
    ...openEventCounter(database, source, damage.hasAny),
    ...openWholeReads(source, () => resolveFilter({}, lookup, node)!),
    services: lookup.services,
    foundDamage: () => ({ any: damage.hasAny(), losses: damage.listLosses() }),
    nodes: () => [node],
    isReplaced: writer.isReplaced,
    info() {
      const [first, last, count] = extent.get()!;
      if ([first, last, count].some((value) => (value ?? 0n) < 0n))
        throw createCorruptError('times of its events are malformed');
      return {
        ...origin,
        retainBytes: Number(retainBytes.get()) || null,
        firstTimestampNs: first,
        lastTimestampNs: last === null ? null : decodeStoredMax(last),
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
      reusesMemory = false,
      risingMinNs,
    }) {
      const wanted = selectColumns(columns);
      return filters.resolved(filter, wanted, (resolved) => {
        const options = { filter: resolved, columns: wanted, reusesMemory };
        if (order === 'none') return scanUnordered(source, { ...options, risingMinNs });
        return scanBlocks(source, { ...options, order, after, limit, blockRowsMax });
      });
    },
    lookForFiles: filters.findFiles,
    event: (number) => source.runInTransaction(() => findEventByNumber(source, damage, number)),
    close() {
      cache.close();
      database.close();
    },
  } satisfies Omit<
    RecordingReader,
    keyof (typeof entries & typeof passed) | 'recordingId' | 'node' | 'transactionIndex'
  >);
  return { recordingId, node, ...guardedReader, ...entries, ...passed, transactionIndex };
}

/** Opens the readers of the whole recording. `everything` returns a filter that all events match. */
function openWholeReads(source: ScanSource, everything: () => ResolvedFilter): EntryCheck & SealedReader {
  return { ...openEntryCheck(source, everything), ...openSealedSegments(source, everything) };
}

function createGuard(path: string, damage: DamageNotes, before: () => void) {
  return <Arguments extends unknown[], Result>(work: (...args: Arguments) => Result) =>
    (...args: Arguments): Result => {
      try {
        before();
        return work(...args);
      } catch (error) {
        const known = toDamageError(error);
        if (isDamage(known)) damage.addFailure();
        throw toRecordingError(known, path);
      }
    };
}

function createFilterResolver(guarded: ReturnType<typeof createGuard>, lookup: Lookup, node: string) {
  const resolve = guarded((filter: EventFilter) => resolveFilter(filter, lookup, node));

  function* findFiles(filter: EventFilter): Generator<void, void> {
    const steps = lookForFiles(filter, lookup);
    const step = guarded(() => steps.next());
    while (!step().done) yield;
  }

  /** Yields an empty block for each step of resolving the filter, and then the blocks of the scan. */
  function* scanResolved(
    filter: EventFilter,
    columns: ReturnType<typeof selectColumns>,
    scan: (filter: ResolvedFilter) => Generator<NumberedBlock>,
  ): Generator<NumberedBlock> {
    for (const _ of findFiles(filter)) yield gather([], columns, () => {});
    const known = resolve(filter);
    if (known) yield* scan(known);
  }

  return { findFiles, resolved: scanResolved };
}

function findEventByNumber(source: ScanSource, damage: DamageNotes, number: bigint): NumberedBlock | undefined {
  if (number < 0n || number > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
  for (const meta of source.index.findAround(Number(number))) {
    if (damage.has(meta)) throw createCorruptError('the segment of this event cannot be read');
    const event = readEvent(source, meta, Number(number));
    if (event) return event;
  }
  return undefined;
}

function readEvent(source: ScanSource, meta: SegmentMeta, number: number): NumberedBlock | undefined {
  try {
    const segment = source.open(meta);
    const row = segment && findRow(segment, number);
    if (!segment || row === undefined) return undefined;
    const block = gather([{ segment, rows: Uint32Array.of(row) }], COLUMNS, () => {});
    source.onBlock(block);
    return block;
  } catch (error) {
    if (!(error instanceof UnreadableSegment)) throw error;
    if (error.damage) throw error.damage;
    return undefined;
  }
}

/** Finds the row of an event by binary search; event numbers ascend with the rows. */
function findRow({ rowCount, readEventNumber }: Segment, number: number): number | undefined {
  const row = findFirstPlace(0, rowCount - 1, (at) => readEventNumber(at) >= number);
  return readEventNumber(row) === number ? row : undefined;
}

export type { EventFilter, RecordingKey as EventKey };

/**
 * Converts an error of opening a file. Replaces SQLite's messages about writing with advice for a user who only reads.
 */
function openError(error: unknown, path: string): unknown {
  const code = String((error as { code?: unknown }).code);
  const has = (end: string) => existsSync(path + end);
  if (code === 'SQLITE_READONLY_ROLLBACK' && statSync(path).size <= PAGE_BYTES) {
    const message = `${path} was just being created when its agent ended: start the agent again`;
    return new RecordingError('recording_missing', message, error);
  }
  // Reading a log requires the -shm file, which SQLite creates if it is missing.
  if (code.startsWith('SQLITE_CANTOPEN') && has('-wal') && !has('-shm')) {
    const message = `${path} was not closed, and to read its -wal a user must be able to write to the folder: start the agent, or copy both files to a folder of your own`;
    return new RecordingError('recording_not_readable', message, error);
  }
  return toRecordingError(error, path);
}

/** Checks that the files are regular files, because opening a pipe or a device could block forever. */
function checkFiles(path: string): void {
  if (isRegular(path) === undefined)
    throw new RecordingError('recording_missing', `there is no file ${path}: give the path of a recording`);
  for (const name of [path, ...['-wal', '-shm', '-journal'].map((end) => path + end)])
    if (isRegular(name) === false)
      throw new RecordingError('not_a_recording', `${name} is not a regular file: give the path of a recording`);
}

/** Returns whether the file is regular; undefined if it does not exist, or if this user has no access to it. */
function isRegular(path: string): boolean | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile();
  } catch {
    return undefined;
  }
}

/* The state of a recording: whether an agent has written it, what it was exported for, its size, its total losses. */

const WRITTEN = "SELECT 1 FROM meta WHERE key = 'alive_ns'";
const EXPORTED = `SELECT value FROM meta WHERE key = '${EXPORTED_TRANSACTION}'`;
const quoteWords = (words: readonly string[]) => words.map((word) => `'${word}'`).join();
/** SQL for the first word of a reason, which is the cause; see `encodeReason`. */
const CAUSE = "substr(cause, 1, instr(cause || ' ', ' ') - 1)";
/**
 * SQL for the losses by cause and event type. All unknown causes form one group, because a file from an untrusted
 * source may contain any number of them.
 */
const LOST = `
SELECT
  CASE WHEN ${CAUSE} IN (${quoteWords(Object.keys(LOSS_CAUSES))}) THEN ${CAUSE} ELSE 'unknown' END AS known_cause,
  CASE WHEN event_type IN (${quoteWords(EVENTS.map(({ name }) => name))}) THEN event_type END AS known_type,
  sum(count)
FROM loss
WHERE scope IN (${quoteWords(WHOLE_SCOPES)})
GROUP BY known_cause, known_type
ORDER BY known_cause, known_type`;

export interface StateReader {
  /** Returns whether an agent has ever written the recording; false for a bundle. */
  isWritten(): boolean;
  /** Returns the id of the transaction for which a bundle was exported; undefined if it was exported for a time. */
  exportedTransaction(): string | undefined;
  /** Returns the size of the file and its log together, in bytes. */
  sizeBytes(): number;
  lossTotals(): LossTotal[];
}

type LossTotal = Pick<Loss, 'cause' | 'eventType' | 'count'>;

function openStateReader(database: Database.Database, path: string): StateReader {
  const written = database.prepare<[], number>(WRITTEN).pluck();
  const exported = database.prepare<[], string>(EXPORTED).pluck();
  const lost = database.prepare<[], [Loss['cause'], Loss['eventType'], number]>(LOST).raw();
  return {
    isWritten: () => written.get() !== undefined,
    exportedTransaction() {
      const id = exported.get();
      return id === undefined ? undefined : String(id);
    },
    sizeBytes: () => readFileSize(path) + readFileSize(`${path}-wal`),
    lossTotals: () => lost.all().map(([cause, eventType, count]) => ({ cause, eventType, count })),
  };
}

function readFileSize(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/* The time span that a recording covers. Losses within the span are in a separate table. */

const NOTES =
  "SELECT key, value FROM meta WHERE key IN ('created_ns', 'alive_ns', 'ended', 'alive_monotonic_ns', 'alive_boot_id')";

const FIRST_AND_LAST = 'SELECT min(min_timestamp_ns), max(max_timestamp_ns) FROM segment';

export interface RecordedSpan {
  fromNs: bigint;
  /** The latest time at which a writer is known to have been active. */
  toNs: bigint;
  /**
   * `unsaid`: a writer is active, or the last writer was killed, or this file is a copy that was made while a writer
   * was active.
   */
  end: 'closed' | 'unsaid';
  /** Time of the writer's last commit, as a CLOCK_MONOTONIC value of the boot `bootId`. */
  committed?: { monotonicNs: bigint; bootId: string };
}

interface RecordedSpanReader {
  /** Returns the span; undefined if the recording has no times and no events. */
  recordedSpan(): RecordedSpan | undefined;
}

function openRecordedSpan(database: Database.Database): RecordedSpanReader {
  const notes = database.prepare<[], [string, bigint | string]>(NOTES).raw().safeIntegers();
  const firstAndLast = database.prepare<[], [bigint | null, bigint | null]>(FIRST_AND_LAST).raw().safeIntegers();
  return {
    recordedSpan() {
      const said = new Map(notes.all());
      for (const [key, value] of said)
        if (key !== 'alive_boot_id' && (typeof value !== 'bigint' || value < 0n))
          throw createCorruptError(`its ${key} is not a time`);
      const created = said.get('created_ns');
      const alive = said.get('alive_ns');
      if (typeof created === 'bigint' && typeof alive === 'bigint') {
        const monotonicNs = said.get('alive_monotonic_ns');
        const bootId = said.get('alive_boot_id');
        const isKnown = typeof monotonicNs === 'bigint' && typeof bootId === 'string';
        return {
          fromNs: created,
          toNs: alive,
          end: said.get('ended') === 1n ? 'closed' : 'unsaid',
          ...(isKnown && { committed: { monotonicNs, bootId } }),
        };
      }
      // A bundle has selected events, and does not record the time that it covers.
      const [first, last] = firstAndLast.get()!;
      if (first === null || last === null) return undefined;
      return { fromNs: first, toNs: decodeStoredMax(last), end: 'closed' };
    },
  };
}

/* Runs several statements in one read transaction, so that they all read the same snapshot. */

/**
 * Returns a function that runs `work` in a read transaction. SQLite ends the transaction if a page is unreadable, so
 * later reads of `work` may see another snapshot. If a writer has committed meanwhile, the function throws.
 */
function readTransactions(database: Database.Database): <T>(work: () => T) => T {
  const begin = database.prepare('BEGIN');
  const commit = database.prepare('COMMIT');
  const dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck();
  return (work) => {
    if (database.inTransaction) return work();
    begin.run();
    const seen = dataVersion.get();
    try {
      const result = work();
      if (!database.inTransaction && dataVersion.get() !== seen)
        throw createCorruptError('it was written to while it was read');
      return result;
    } finally {
      if (database.inTransaction) commit.run();
    }
  };
}

/*
 * Follows the changes that a newer writer may make to an open file: the writer may add columns or replace the
 * recording.
 */

const RECORDING_ID_NOW = "SELECT value FROM meta WHERE key = 'recording_id'";

const COLUMN_NAMES = 'SELECT name, column_id, storage, piece FROM column_name';

interface FollowedFile {
  path: string;
  recordingId: string;
}

export interface FollowedWriter {
  /** Checks for changes; must be called before each read. The other methods return the state at the last call. */
  follow(): void;
  /** Returns a number that changes whenever another connection has committed. */
  version(): number;
  /** Reads the current value of `version` from the file. */
  newestVersion(): number;
  locations(): ColumnLocations;
  isReplaced(): boolean;
}

function createFollowedWriter(database: Database.Database, { path, recordingId }: FollowedFile): FollowedWriter {
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

/** The largest possible column id: a segment stores the id in two bytes. */
const COLUMN_ID_MAX = 0xffff;

const isColumnId = (id: number) => Number.isInteger(id) && id > 0 && id <= COLUMN_ID_MAX;

/** Reads the ids and pieces of the columns that this program knows. */
function readColumnLocations(database: Database.Database, path: string): ColumnLocations & { lastId: number } {
  const ids = new Map<string, number>();
  const pieces = new Map<string, number>();
  let lastId = 0;
  // Damage may hide a column. Without this check, the file would seem never to have had that column.
  const check = database.prepare<[], string>("PRAGMA main.integrity_check('column_name')").pluck();
  if (check.get() !== 'ok') throw createCorruptError('its list of columns cannot be read');
  const rows = database.prepare<[], [string, number, string, number]>(COLUMN_NAMES).raw();
  for (const [name, id, storage, piece] of rows.iterate()) {
    if (!isColumnId(id)) throw createCorruptError(`it has a column with the number ${id}, which no recording has`);
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

/* Reads the losses and clock steps of a recording. */

const LOSSES = `
SELECT from_ns, to_ns, cause, event_type, count, scope, sums
FROM loss
WHERE from_ns < :toNs AND to_ns >= :fromNs AND scope IN ('', :scope)
ORDER BY loss_id`;

const ALL_LOSSES = LOSSES.replace(" AND scope IN ('', :scope)", '');

const CLOCK_STEPS = `
SELECT boot_ns, offset_ns, kind, suspended_ns, clock_id
FROM clock
WHERE clock_id > ?
ORDER BY clock_id`;

export interface LossReader {
  /** Returns the losses that overlap [fromNs, toNs): all, or those of this stored scope and those of any transaction. */
  lossesOfScope(fromNs?: bigint, toNs?: bigint, scope?: string): Loss[];
  clockSteps(): ClockStep[];
  listClockStepsAfter(clockId: number): NotedClockStep[];
}

export interface NotedClockStep extends ClockStep {
  clockId: number;
}

function areCounts(values: readonly unknown[]): boolean {
  return values.every((value) => typeof value === 'bigint' && value >= 0n);
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.length <= WORD_MAX;
}

type LossRow = [bigint, bigint, string, Loss['eventType'], bigint, unknown, unknown];

function openLossReader(database: Database.Database): LossReader {
  const losses = database.prepare<[object], LossRow>(LOSSES).raw().safeIntegers();
  const allLosses = database.prepare<[object], LossRow>(ALL_LOSSES).raw().safeIntegers();
  const steps = database
    .prepare<[number], [bigint, bigint, ClockStep['kind'], bigint, bigint]>(CLOCK_STEPS)
    .raw()
    .safeIntegers();

  const listClockStepsAfter = (after: number): NotedClockStep[] =>
    steps.all(after).map(([bootNs, offsetNs, kind, suspendedNs, clockId]) => {
      if (!areCounts([bootNs, suspendedNs]) || typeof offsetNs !== 'bigint' || !isText(kind))
        throw createCorruptError('its list of clock steps is malformed');
      return { bootNs, offsetNs, kind, suspendedNs, clockId: Number(clockId) };
    });

  return {
    lossesOfScope(fromNs = 0n, toNs = U64_MAX, scope = undefined) {
      const period = { fromNs: toStored(fromNs), toNs: toStored(toNs) };
      return (scope === undefined ? allLosses.all(period) : losses.all({ ...period, scope })).map(toLoss);
    },
    clockSteps: () => listClockStepsAfter(0).map(({ clockId: _, ...step }) => step),
    listClockStepsAfter,
  };
}

function toLoss([fromNs, toNs, cause, eventType, count, scopeText, sumsText]: LossRow): Loss {
  const [scope, sums] = [parseScope(scopeText), parseSums(sumsText)];
  const areTexts = isText(cause) && (eventType === null || isText(eventType));
  if (!areCounts([fromNs, toNs, count]) || !areTexts || !scope || !sums)
    throw createCorruptError('its list of losses is malformed');
  return { fromNs, toNs, ...parseReason(cause), ...scope, ...sums, eventType, count: Number(count) };
}

/* Collects the damaged parts that a reader found and left out. Answers that lack these parts report them as losses. */

type DamagedSegment = Pick<SegmentMeta, 'firstNumber' | 'eventCount' | 'minNs' | 'maxNs'>;

/**
 * The damage that one reader found, to be passed to another reader of the same file. Damage of the log is not included,
 * because every reader checks the log itself.
 */
export interface FoundDamage {
  segments: readonly DamagedSegment[];
  entries: boolean;
  failures: boolean;
}

export interface DamageNotes {
  /** Adds a segment whose columns are unreadable. */
  add(meta: DamagedSegment): void;
  /** Notes a damaged entry whose time is unknown. */
  addEntry(): void;
  /** Notes whether the log has unreadable commits. */
  setLog(isDamaged: boolean): void;
  /** Notes a request that failed because of damage. */
  addFailure(): void;
  has(meta: SegmentMeta): boolean;
  listLosses(fromNs?: bigint, toNs?: bigint): Loss[];
  /** Returns whether any damage was found, even if it affects no answer. */
  hasAny(): boolean;
  /** Returns the damage that this reader found; undefined if there is none. */
  found(): FoundDamage | undefined;
  /** Adds the damage that another reader found. */
  addFound(found: FoundDamage): void;
}

function createDamageNotes(): DamageNotes {
  const segments = new Map<number, DamagedSegment>();
  let entries = false;
  let failures = false;
  let isLogDamaged = false;
  const hasAny = () => failures || entries || isLogDamaged || segments.size > 0;
  const buildLoss = (count: number, fromNs: bigint, toNs: bigint): Loss => ({
    cause: 'damaged',
    eventType: null,
    count,
    fromNs,
    toNs,
  });
  return {
    add: ({ firstNumber, eventCount, minNs, maxNs }) =>
      void segments.set(firstNumber, { firstNumber, eventCount, minNs, maxNs }),
    addEntry: () => {
      entries = true;
    },
    setLog: (isDamaged) => {
      isLogDamaged = isDamaged;
    },
    addFailure: () => {
      failures = true;
    },
    hasAny,
    found() {
      if (!failures && !entries && segments.size === 0) return undefined;
      return { segments: [...segments.values()], entries, failures };
    },
    addFound(found) {
      for (const segment of found.segments) segments.set(segment.firstNumber, segment);
      entries ||= found.entries;
      failures ||= found.failures;
    },
    has: ({ firstNumber }) => segments.has(firstNumber),
    listLosses: (fromNs = 0n, toNs = U64_MAX) => [
      ...(entries || isLogDamaged ? [buildLoss(0, fromNs, toNs)] : []),
      ...[...segments.values()]
        .filter(({ minNs, maxNs }) => minNs < toNs && maxNs >= fromNs)
        .map(({ minNs, maxNs, eventCount }) => buildLoss(eventCount, minNs, maxNs)),
    ],
  };
}

export interface LossLister {
  /** Returns the losses that overlap [fromNs, toNs), without parts unless `parts` selects some. */
  losses(fromNs?: bigint, toNs?: bigint, parts?: LossParts): Loss[];
}

/**
 * Makes the losses and their totals include the damage that was found, besides the losses that the recording reports.
 */
function includeDamage(
  damage: DamageNotes,
  readLosses: LossReader['lossesOfScope'],
  totals: StateReader['lossTotals'],
): LossLister & Pick<StateReader, 'lossTotals'> {
  return {
    losses: (fromNs, toNs, parts) => [
      ...readKnownLosses(() => readLosses(fromNs, toNs, parts === 'all' ? undefined : listScopes(parts)[1]), damage),
      ...damage.listLosses(fromNs, toNs),
    ],
    lossTotals() {
      const damaged = damage.listLosses().map(({ cause, eventType, count }) => ({ cause, eventType, count }));
      if (damaged.length === 0 && damage.hasAny()) damaged.push({ cause: 'damaged', eventType: null, count: 0 });
      return [...readKnownLosses(totals, damage), ...damaged];
    },
  };
}

/**
 * Reads the losses. If they are unreadable, returns none and notes damage of unknown time, because every answer may
 * then have a gap.
 */
function readKnownLosses<Noted>(losses: () => Noted[], damage: DamageNotes): Noted[] {
  try {
    return losses();
  } catch (error) {
    if (!isDamage(error)) throw error;
    damage.addEntry();
    return [];
  }
}

/**
 * Updates the damage notes when the log changes: a writer may repair a damaged log by removing its damaged end. Returns
 * a function that the reader calls before each read. `followLog` must be called after the first read of the file.
 */
function followLog(
  database: Database.Database,
  damage: DamageNotes,
  writer: Pick<FollowedWriter, 'follow' | 'version'>,
): () => void {
  let seenVersion = writer.version();
  let isDamaged = false;
  function noteDamage(): void {
    seenVersion = writer.version();
    isDamaged = findDamagedFrame(database) !== undefined;
    damage.setLog(isDamaged);
  }
  noteDamage();
  return () => {
    writer.follow();
    if (isDamaged && writer.version() !== seenVersion) noteDamage();
  };
}
