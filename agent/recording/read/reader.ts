/** Reads a recording, even while a writer appends to it. */

import { existsSync, statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { firstPlace } from '../../../daemon/base/binary_search.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { openDatabase } from '../format/database.ts';
import { asDamage, corrupt, RecordingError, toRecordingError, withRecordingErrors } from '../format/errors.ts';
import type { Loss } from '../format/losses.ts';
import { checkFormat, fromStoredMax, PAGE_BYTES } from '../format/schema.ts';
import { type ArrivalReader, openArrivals } from './arrivals.ts';
import { gather, wantedColumns } from './assemble_block.ts';
import { type DamageNotes, damageNotes, type FoundDamage, followLog, withDamage } from './damage_notes.ts';
import { type EntryCheck, openEntryCheck } from './entry_check.ts';
import { type EventFilter, lookForFiles, type ResolvedFilter, resolveFilter } from './event_filter.ts';
import { followedWriter } from './followed_writer.ts';
import { CACHED_MAX, type Lookup, openLookup } from './lookup.ts';
import { type LossReader, openLossReader } from './loss_reader.ts';
import { openPieceCache } from './piece_cache.ts';
import { readTransactions } from './read_transaction.ts';
import { openRecordedSpan, type RecordedSpanReader } from './recorded_span.ts';
import { isDamage } from './salvage.ts';
import { type EventKey, type ScanSource, scanBlocks } from './scan.ts';
import { openSealedSegments, type SealedReader } from './sealed_segments.ts';
import { openSegment, type Segment, UnreadableSegment, withUnreadable } from './segment.ts';
import { openSegmentIndex, type SegmentMeta } from './segment_index.ts';
import { checkSizes, TEXT_MAX } from './sizes.ts';
import { openStateReader, type StateReader } from './state_reader.ts';
import { openTransactionIndex, type TransactionIndex } from './transaction_index.ts';
import { openPinReader, openTransactions, type PinReader, type Transactions } from './transactions.ts';
import { openUnended, type UnendedReader } from './unended.ts';
import { scanUnordered } from './unordered_scan.ts';
import { isShort, keepUntilCommit } from './until_commit.ts';

const META = "SELECT key, value FROM meta WHERE key IN ('recording_id', 'node', 'boot_id', 'machine_id', 'created_ns')";

const RETAIN_BYTES = "SELECT value FROM meta WHERE key = 'retain_bytes'";

/** The recording id becomes a part of file names. */
const RECORDING_ID = /^[0-9a-f]{16}$/;

const EXTENT = `
SELECT min(min_timestamp_ns), max(max_timestamp_ns), coalesce(sum(event_count), 0)
FROM segment`;

/** How long to wait for a writer that is creating or closing the file. */
const BUSY_TIMEOUT_MS = 2000;

/** A lookup by text seeks in each batch of hashes: the upper pages of these stay cached, even in large recordings. */
const CACHE_KIBIBYTES = 16_384;
/** What a reader keeps that takes each segment once. */
const ONCE = { kibibytes: 2_048, entries: 16_384 };

export interface RecordingInfo {
  recordingId: string;
  node: string;
  bootId: string;
  machineId: string;
  createdNs: bigint;
  /** Size limit of the last agent; null without one, as in a bundle. */
  retainBytes: number | null;
  /** Starts of the first and the last event; null when there is none. */
  firstTimestampNs: bigint | null;
  lastTimestampNs: bigint | null;
  eventCount: number;
}

export interface ScanRequest {
  filter?: EventFilter;
  /** `none`: each block has rows of one segment, in the order in which they were recorded; without `after` and `limit`. */
  order?: 'asc' | 'desc' | 'none';
  /** Only events that come after this one in the scan's order are returned. */
  after?: EventKey;
  limit?: number;
  /** The default is 4096. */
  blockRowsMax?: number;
  /** Columns to return; `event_type` and `timestamp_ns` are always included. */
  columns?: readonly string[] | 'all';
  /** Whether each block takes the memory of the one before it: its consumer must be done with that one. */
  reusesMemory?: boolean;
  /** With order `none`: events that are shorter than it says when their segment is read may be left out. */
  risingMinNs?: () => bigint;
}

export interface RecordingReader
  extends Pick<Lookup, 'name' | 'file' | 'context' | 'services'>,
    ArrivalReader,
    EntryCheck,
    PinReader,
    RecordedSpanReader,
    LossReader,
    SealedReader,
    StateReader,
    Transactions,
    UnendedReader {
  readonly recordingId: string;
  readonly node: string;
  readonly transactionIndex: TransactionIndex;
  info(): RecordingInfo;
  /** Damage found in this file so far, without the damage of its source that the file itself reports. */
  foundDamage(): { any: boolean; losses: Loss[] };
  /** What to pass to other readers of this file; undefined if no damage was found. */
  damage(): FoundDamage | undefined;
  /** Takes over what another reader of this file found. */
  addDamage(found: FoundDamage): void;
  scan(request: ScanRequest): Generator<NumberedBlock>;
  /** Finds the files of a filter ahead of its use, in steps: the first time that may take long. */
  lookForFiles(filter: EventFilter): Generator<void, void>;
  event(number: bigint): NumberedBlock | undefined;
  nodes(): string[];
  /** Whether the recording's id has changed since it was opened: a log that lay beside it belonged to another file. */
  isReplaced(): boolean;
  close(): void;
}

/**
 * `isForeign`: the file may come from an untrusted source, so all its tables are checked once. `isDamaged`: a writer
 * has found the recording damaged. `takesOnce`: each event is read once, so that little is kept for later.
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
    return readerOf(database, path, { isDamaged, cached: takesOnce ? ONCE.entries : CACHED_MAX });
  } catch (error) {
    database?.close();
    throw openError(error, path);
  }
}

/** Reads the recording's id, and where and when it was begun. */
function readOrigin(database: Database.Database) {
  const meta = new Map(database.prepare<[], [string, string | bigint]>(META).raw().safeIntegers().all());
  const recordingId = String(meta.get('recording_id'));
  if (!RECORDING_ID.test(recordingId)) throw corrupt('its recording id is malformed');
  const node = String(meta.get('node'));
  if (node.length > TEXT_MAX) throw corrupt('the name of its node is malformed');
  const createdNs = meta.get('created_ns') ?? 0n;
  if (typeof createdNs !== 'bigint' || createdNs < 0n) throw corrupt('its start time is malformed');
  const [bootId, machineId] = [String(meta.get('boot_id')), String(meta.get('machine_id'))];
  return { recordingId, node, bootId, machineId, createdNs };
}

interface Opening {
  isDamaged: boolean;
  /** Entries of each dictionary. */
  cached: number;
}

function readerOf(database: Database.Database, path: string, { isDamaged, cached }: Opening): RecordingReader {
  const origin = readOrigin(database);
  const { recordingId, node } = origin;
  const retainBytes = database.prepare<[], number>(RETAIN_BYTES).pluck();
  const extent = database.prepare<[], [bigint | null, bigint | null, bigint]>(EXTENT).raw().safeIntegers();
  const writer = followedWriter(database, { path, recordingId });
  const keep = keepUntilCommit(writer.version);
  const lookup = openLookup(database, keep, cached);
  const cache = openPieceCache();
  const damage = damageNotes();
  if (isDamaged) damage.addFailure();
  const guarded = guardOf(path, damage, followLog(database, damage, writer));
  const index = openSegmentIndex(database, damage.addEntry);
  const source: ScanSource = {
    index,
    columnIds: () => writer.locations().ids,
    open(meta, make) {
      if (damage.has(meta)) return undefined;
      const bytes = withUnreadable(meta, () => index.bytes(meta));
      return bytes && openSegment(meta, bytes, writer.locations(), make ? { make } : { cache });
    },
    onDamaged: damage.add,
    onBlock: lookup.remember,
    inTransaction: guarded(readTransactions(database)) as ScanSource['inTransaction'],
    dataVersion: writer.newestVersion,
  };
  const guard = <Methods extends object>(methods: Methods): Methods =>
    Object.fromEntries(Object.entries(methods).map(([name, method]) => [name, guarded(method)])) as Methods;

  const transactionIndex = openTransactionIndex({ database, lookup, inTransaction: source.inTransaction });
  const side = openLossReader(database);
  const lossesIn = keep(side.losses, isShort);
  const transactions = openTransactions(database, lookup);
  const state = openStateReader(database, path);
  /** Mostly answered from the cache: no agent changes what an id refers to, so these do not follow the writer. */
  const entryOf = <Entry>(find: (id: number) => Entry) => {
    return (id: number) => withRecordingErrors(path, () => find(id));
  };
  const entries = { name: entryOf(lookup.name), file: entryOf(lookup.file), context: entryOf(lookup.context) };
  const filters = filtersOf(guarded, lookup, node);
  const passed = { damage: damage.found, addDamage: damage.addFound };

  const guardedReader = guard({
    ...side,
    ...state,
    unended: keep(openUnended(database, writer.locations, lookup, damage).unended),
    ...withDamage(damage, lossesIn, state.lossTotals),
    ...transactions,
    transaction: keep(transactions.transaction),
    ...openPinReader(database),
    recordedSpan: keep(openRecordedSpan(database).recordedSpan),
    ...openArrivals(database, source, lookup, node),
    ...wholeReads(source, () => resolveFilter({}, lookup, node)!),
    services: lookup.services,
    foundDamage: () => ({ any: damage.any(), losses: damage.losses() }),
    nodes: () => [node],
    isReplaced: writer.isReplaced,
    info() {
      const [first, last, count] = extent.get()!;
      if ([first, last, count].some((value) => (value ?? 0n) < 0n)) throw corrupt('times of its events are malformed');
      return {
        ...origin,
        retainBytes: Number(retainBytes.get()) || null,
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
      reusesMemory = false,
      risingMinNs,
    }) {
      const wanted = wantedColumns(columns);
      return filters.resolved(filter, wanted, (resolved) => {
        const options = { filter: resolved, columns: wanted, reusesMemory };
        if (order === 'none') return scanUnordered(source, { ...options, risingMinNs });
        return scanBlocks(source, { ...options, order, after, limit, blockRowsMax });
      });
    },
    lookForFiles: filters.look,
    event: (number) => source.inTransaction(() => eventNumbered(source, damage, number)),
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

/** Reads of everything that is recorded; `everything` is a filter that all events match. */
function wholeReads(source: ScanSource, everything: () => ResolvedFilter): EntryCheck & SealedReader {
  return { ...openEntryCheck(source, everything), ...openSealedSegments(source, everything) };
}

function guardOf(path: string, damage: DamageNotes, before: () => void) {
  return <Arguments extends unknown[], Result>(work: (...args: Arguments) => Result) =>
    (...args: Arguments): Result => {
      try {
        before();
        return work(...args);
      } catch (error) {
        const known = asDamage(error);
        if (isDamage(known)) damage.addFailure();
        throw toRecordingError(known, path);
      }
    };
}

function filtersOf(guarded: ReturnType<typeof guardOf>, lookup: Lookup, node: string) {
  const resolve = guarded((filter: EventFilter) => resolveFilter(filter, lookup, node));

  function* look(filter: EventFilter): Generator<void, void> {
    const steps = lookForFiles(filter, lookup);
    const step = guarded(() => steps.next());
    while (!step().done) yield;
  }

  /** The blocks of a scan; those before the filter is resolved are pauses. */
  function* resolved(
    filter: EventFilter,
    columns: ReturnType<typeof wantedColumns>,
    scan: (filter: ResolvedFilter) => Generator<NumberedBlock>,
  ): Generator<NumberedBlock> {
    for (const _ of look(filter)) yield gather([], columns, () => {});
    const known = resolve(filter);
    if (known) yield* scan(known);
  }

  return { look, resolved };
}

function eventNumbered(source: ScanSource, damage: DamageNotes, number: bigint): NumberedBlock | undefined {
  if (number < 0n || number > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
  for (const meta of source.index.around(Number(number))) {
    if (damage.has(meta)) throw corrupt('the segment of this event cannot be read');
    const event = eventOf(source, meta, Number(number));
    if (event) return event;
  }
  return undefined;
}

function eventOf(source: ScanSource, meta: SegmentMeta, number: number): NumberedBlock | undefined {
  try {
    const segment = source.open(meta);
    const row = segment && rowOf(segment, number);
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

/** Numbers grow with the rows. */
function rowOf({ rowCount, numberAt }: Segment, number: number): number | undefined {
  const row = firstPlace(0, rowCount - 1, (at) => numberAt(at) >= number);
  return numberAt(row) === number ? row : undefined;
}

export type { EventFilter, EventKey };

/** Replaces SQLite's errors about writing, which a user who only reads does not understand. */
function openError(error: unknown, path: string): unknown {
  const code = String((error as { code?: unknown }).code);
  const has = (end: string) => existsSync(path + end);
  if (code === 'SQLITE_READONLY_ROLLBACK' && statSync(path).size <= PAGE_BYTES) {
    const message = `${path} was just being created when its agent ended: start the agent again`;
    return new RecordingError('recording_missing', message, error);
  }
  // A log is read with the help of the -shm file, which SQLite makes if it is missing.
  if (code.startsWith('SQLITE_CANTOPEN') && has('-wal') && !has('-shm')) {
    const message = `${path} was not closed, and to read its -wal a user must be able to write to the folder: start the agent, or copy both files to a folder of your own`;
    return new RecordingError('recording_not_readable', message, error);
  }
  return toRecordingError(error, path);
}

/** Only regular files are opened: opening a pipe or a device would wait for a process at its other end. */
function checkFiles(path: string): void {
  if (isRegular(path) === undefined)
    throw new RecordingError('recording_missing', `there is no file ${path}: give the path of a recording`);
  for (const name of [path, ...['-wal', '-shm', '-journal'].map((end) => path + end)])
    if (isRegular(name) === false)
      throw new RecordingError('not_a_recording', `${name} is not a regular file: give the path of a recording`);
}

/** Returns undefined when there is no such file, or this user may not look at it. */
function isRegular(path: string): boolean | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile();
  } catch {
    return undefined;
  }
}
