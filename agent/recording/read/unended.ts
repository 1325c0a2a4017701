/**
 * Reads calls and requests that have begun but not ended: those in progress now, and those in progress when a writer
 * ended.
 */
import type Database from 'better-sqlite3';
import { type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { getApiName } from '../../../bpf/schema/define.ts';
import { type EventType, findEventDefinition } from '../../../bpf/schema/index.ts';
import type { Queuer } from '../../../bpf/schema/kinds.ts';
import { I64_MAX, U64_MAX } from '../../../daemon/base/bigints.ts';
import { createPathTest } from '../../../daemon/base/file_pattern.ts';
import { HEAD_BYTES } from '../codec/encode_segment.ts';
import { createCorruptError, isCorrupt } from '../format/errors.ts';
import {
  IN_PROGRESS,
  IN_PROGRESS_UNLISTED,
  joinUnlisted,
  NONE_UNLISTED,
  parseUnlisted,
  UNFINISHED,
  UNKNOWN_UNLISTED,
  type Unlisted,
} from '../format/in_progress.ts';
import { ORIGINS, OWN, type OwnerColumns } from '../format/owner_columns.ts';
import { findQueuer } from '../format/queuer.ts';
import { toStored } from '../format/schema.ts';
import { buildWholeBlock } from './assemble_block.ts';
import { type EventValues, nameConditionColumn, OWN_FIELDS, type OwnField, type OwnTexts } from './event_filter.ts';
import type { Lookup } from './lookup.ts';
import { type ColumnLocations, openSegment, UnreadableSegment } from './segment.ts';

const VALUES = `SELECT key, value FROM meta WHERE key IN ('${IN_PROGRESS}', '${IN_PROGRESS_UNLISTED}', '${UNFINISHED}')`;
const REMOVED_UNTIL = "SELECT max(to_ns) FROM loss WHERE cause = 'retention'";
const ALL_TYPES = I64_MAX;

export interface UnendedOwner {
  service_name: string;
  transaction_id: string | null;
  trace_id: string | null;
}

/** The values of an event that are known before it ends, by their names in the API. */
export interface RecordedUnended extends UnendedOwner {
  event_type: EventType;
  timestamp_ns: bigint;
  pid: number;
  tid: number;
  comm: string;
  /** Set for calls only. `file` is null if the file is unknown. */
  syscall?: string;
  file?: string | null;
  /** Set for block requests only. */
  operation?: string;
  device?: string;
  queued_by?: Queuer | null;
  /** The owners of the data that a request carries. */
  origins: UnendedOwner[];
}

export interface UnendedLists {
  /**
   * Calls and requests in progress at the writer's last commit, sorted by start. A writer that was stopped made its
   * last commit when it ended.
   */
  events: RecordedUnended[];
  /**
   * Calls and requests that were in progress when an earlier writer ended. Each one is also recorded as a loss at its
   * start.
   */
  lost: RecordedUnended[];
  /** The calls and requests in progress that are not listed: their number, and what is known of them. */
  unlisted: Unlisted;
}

export interface UnendedReader {
  unended(): UnendedLists;
}

export function openUnended(
  database: Database.Database,
  locations: () => ColumnLocations,
  lookup: Pick<Lookup, 'name' | 'file' | 'context' | 'remember'>,
  { addEntry }: { addEntry(): void },
): UnendedReader {
  const values = database.prepare<[], [string, unknown]>(VALUES).raw();
  const removedUntil = database.prepare<[], bigint | null>(REMOVED_UNTIL).pluck().safeIntegers();

  /** Reads one of the two lists. A damaged list is noted as damage and counts as one unknown call. */
  function readList(bytes: unknown): Omit<UnendedLists, 'lost'> {
    if (bytes === undefined) return { events: [], unlisted: NONE_UNLISTED };
    try {
      const block = decodeUnendedBlock(bytes, locations());
      lookup.remember(block);
      return { events: buildUnendedEvents(block, lookup), unlisted: countUnknownTypes(block) };
    } catch (error) {
      if (!(error instanceof UnreadableSegment || isCorrupt(error))) throw error;
      addEntry();
      return { events: [], unlisted: UNKNOWN_UNLISTED };
    }
  }

  function readUnlisted(text: unknown): Unlisted {
    const unlisted = parseUnlisted(text);
    if (!unlisted) addEntry();
    return unlisted ?? UNKNOWN_UNLISTED;
  }

  return {
    unended() {
      const said = new Map(values.all());
      const { events, unlisted } = readList(said.get(IN_PROGRESS));
      const keptNs = (said.has(UNFINISHED) && removedUntil.get()) || 0n;
      // Each entry of this list is also recorded as a loss, so unreadable entries are not counted here.
      const lost = readList(said.get(UNFINISHED)).events.filter(({ timestamp_ns }) => timestamp_ns >= keptNs);
      const others = joinUnlisted(unlisted, readUnlisted(said.get(IN_PROGRESS_UNLISTED)));
      return { events: events.sort(compareStarts), lost, unlisted: others };
    },
  };
}

/** Counts events of types that only a newer kreplay knows. */
function countUnknownTypes(block: NumberedBlock): Unlisted {
  const [types, starts] = ['event_type', 'timestamp_ns'].map((name) => block.columns.get(name)!) as [
    Uint8Array,
    BigUint64Array,
  ];
  return Array.from({ length: block.rowCount }, (_, row) => row)
    .filter((row) => !findEventDefinition(types[row]!))
    .map((row) => ({ count: 1, labelled: 1, sinceNs: starts[row]! }))
    .reduce(joinUnlisted, NONE_UNLISTED);
}

function compareStarts(a: RecordedUnended, b: RecordedUnended): number {
  return a.timestamp_ns < b.timestamp_ns ? -1 : a.timestamp_ns > b.timestamp_ns ? 1 : 0;
}

function decodeUnendedBlock(bytes: unknown, locations: ColumnLocations): NumberedBlock {
  if (!Buffer.isBuffer(bytes) || bytes.length < HEAD_BYTES)
    throw createCorruptError('its list of calls in progress is malformed');
  const eventCount = bytes.readUInt16LE(4);
  const meta = {
    firstNumber: 0,
    endNumber: eventCount,
    eventCount,
    sealed: false,
    services: new Uint32Array(),
    typeMask: ALL_TYPES,
    minNs: 0n,
    maxNs: toStored(U64_MAX),
    maxDurationNs: 0n,
    facts: undefined,
  };
  const segment = openSegment(meta, { whole: bytes, readPiece: () => bytes }, locations);
  return buildWholeBlock(segment, COLUMNS);
}

function buildUnendedEvents(
  block: NumberedBlock,
  lookup: Pick<Lookup, 'name' | 'file' | 'context'>,
): RecordedUnended[] {
  const getColumn = (name: string) => block.columns.get(name)!;
  const [types, starts, pids, tids, comms] = ['event_type', 'timestamp_ns', 'pid', 'tid', 'comm'].map(getColumn);
  const ownRows = typeRows(block);
  const readOwner = ({ service, context }: OwnerColumns, at: number): UnendedOwner => {
    const { transactionId, traceId } = lookup.context(Number(getColumn(context.name)[at]));
    const service_name = lookup.name(Number(getColumn(service.name)[at]));
    return { service_name, transaction_id: transactionId, trace_id: traceId };
  };
  return Array.from({ length: block.rowCount }, (_, row) => row).flatMap((row) => {
    const type = findEventDefinition(Number(types![row]));
    if (!type) return [];
    const own = ownRows[row]!;
    const origins = ORIGINS.filter(
      ({ eventType, context, service }) =>
        eventType === type.id && (getColumn(context.name)[own] !== 0 || getColumn(service.name)[own] !== 0),
    );
    return {
      event_type: type.name,
      timestamp_ns: starts![row] as bigint,
      ...readOwner(OWN, row),
      pid: Number(pids![row]),
      tid: Number(tids![row]),
      comm: lookup.name(Number(comms![row])),
      ...ownTexts(type, (column) => Number(getColumn(column)[own]), lookup),
      origins: origins.map((columns) => readOwner(columns, own)),
    };
  });
}

type OwnText = Pick<RecordedUnended, OwnField>;

/** Returns the fields of an event on which filters can have conditions, as texts. */
function ownTexts(
  type: NonNullable<ReturnType<typeof findEventDefinition>>,
  readNumber: (column: string) => number,
  lookup: Pick<Lookup, 'name' | 'file' | 'context'>,
): OwnText {
  const wanted: readonly string[] = Object.values(OWN_FIELDS);
  const texts = Object.entries(type.fields).flatMap(([name, of]) => {
    const field = getApiName(name, of);
    if (!wanted.includes(field)) return [];
    const value = readNumber(nameConditionColumn(type.name, field, of.kind));
    if (of.kind.source === 'queuer')
      return [[field, findQueuer(lookup, readNumber(`${type.name}.${field}_service`), value)]];
    if (of.kind.source === 'file') return [[field, lookup.file(value)?.path ?? null]];
    return [[field, of.kind.source === 'text' ? lookup.name(value) : of.kind.labels?.get(value)]];
  });
  return Object.fromEntries(texts);
}

/** The conditions of a filter that can be checked before an event ends. */
export interface UnendedFilter extends Omit<EventValues, 'nodes' | 'results'> {
  transactionId?: string;
  traceId?: string;
  pid?: number;
  excluded?: Omit<EventValues, 'nodes' | 'results'>;
}

/** Returns a test for events in progress. It checks the conditions that do not depend on the end of an event. */
export function createUnendedTest(filter: UnendedFilter): (event: RecordedUnended) => boolean {
  const { transactionId, traceId, pid, excluded = {} } = filter;
  const services = omitEmptyNames(filter.services);
  const comms = omitEmptyNames(filter.comms);
  const excludedServices = omitEmptyNames(excluded.services);
  const hasOwn = ownTest(filter);
  const hasExcluded = ownTest(excluded);
  const listOwners = (event: RecordedUnended): UnendedOwner[] => [event, ...event.origins];
  const isOwnedByService = (event: RecordedUnended, services: readonly string[]) =>
    listOwners(event).some(({ service_name }) => services.includes(service_name));
  return (event) =>
    (transactionId === undefined || listOwners(event).some(({ transaction_id }) => transaction_id === transactionId)) &&
    (traceId === undefined || listOwners(event).some(({ trace_id }) => trace_id === traceId)) &&
    (pid === undefined || event.pid === pid) &&
    (filter.eventTypes?.includes(event.event_type) ?? true) &&
    (comms?.includes(event.comm) ?? true) &&
    (!services || isOwnedByService(event, services)) &&
    hasOwn.every((has) => has(event)) &&
    !excluded.eventTypes?.includes(event.event_type) &&
    !omitEmptyNames(excluded.comms)?.includes(event.comm) &&
    !(excludedServices && isOwnedByService(event, excludedServices)) &&
    !hasExcluded.some((has) => has(event));
}

/**
 * Removes empty names from a filter. An empty name selects events without a name, but an event in progress has all its
 * names.
 */
function omitEmptyNames(names: readonly string[] | undefined): readonly string[] | undefined {
  return names?.filter((name) => name !== '');
}

/** Returns a test for each given field. An event whose type lacks the field fails the test. */
function ownTest(given: OwnTexts): ((event: RecordedUnended) => boolean)[] {
  return Object.entries(OWN_FIELDS).flatMap(([texts, field]) => {
    const wanted = omitEmptyNames(given[texts as keyof OwnTexts]);
    if (!wanted) return [];
    const isWanted = field === 'file' ? createPathTest(wanted) : (text: string) => wanted.includes(text);
    return [
      (event: RecordedUnended) => {
        const text = field === 'queued_by' ? event.queued_by?.transaction_id : event[field];
        return text !== undefined && text !== null && isWanted(text);
      },
    ];
  });
}
