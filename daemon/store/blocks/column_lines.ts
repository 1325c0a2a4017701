/**
 * Encodes events as lines of JSON with one array per field, which takes a tenth of the bytes of one object per event.
 * daemon/docs/query.md describes the lines.
 */

import { toWords } from '../../../agent/recording/words64.ts';
import type { ColumnArray, NumberedBlock } from '../../../bpf/schema/block.ts';
import { EVENTS, type EventDefinition } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { nameError } from './errno.ts';
import { createJsonList, type JsonList, listOriginColumns } from './event_json.ts';
import { getStoredText, type NamedField, selectFields } from './named_fields.ts';
import { createRowNumbers } from './row_numbers.ts';
import {
  createRowCutter,
  type Dictionary,
  getBigColumn,
  getColumn,
  RECORDING_COLUMN,
  type RowCutter,
  type ScannedBlock,
} from './scanned_block.ts';

/*
 * Roles of fields, such as operation, place or size. The field of a role may have a different name in each event type.
 * The roles are derived from the definitions in bpf/schema.
 */

interface EventRoles {
  id: number;
  /** Field with the operation or the system call. */
  operation: NamedField | undefined;
  /** Field with the file or the device. */
  place: NamedField | undefined;
  /** Field with the number of requested bytes. */
  bytes: NamedField | undefined;
  /** Field with the time spent waiting in a queue, in nanoseconds. */
  queue: NamedField | undefined;
  /** Field with the service and the transaction of the task that queued the request. */
  queuer: NamedField | undefined;
  /** Field with the owners of the data that the request carries. */
  origins: NamedField | undefined;
}

const isOperation = (name: string, { labels }: Kind) => labels !== undefined && /^(operation|syscall)$/.test(name);
const isPlace = (name: string, { source }: Kind) => source === 'file' || (source === 'text' && name === 'device');
const isBytes = (name: string, { source }: Kind) => source === 'value' && /^bytes(_requested)?$/.test(name);
const isQueue = (name: string, { source }: Kind) => source === 'value' && name === 'queue_ns';
const isQueuer = (_: string, { source }: Kind) => source === 'queuer';
const isOrigins = (_: string, { source }: Kind) => source === 'origins';

function findEventRoles(event: EventDefinition): EventRoles {
  const findField = (isWanted: (name: string, kind: Kind) => boolean) => selectFields(event, isWanted)[0];
  return {
    id: event.id,
    operation: findField(isOperation),
    place: findField(isPlace),
    bytes: findField(isBytes),
    queue: findField(isQueue),
    queuer: findField(isQueuer),
    origins: findField(isOrigins),
  };
}

/** Returns the name of the column with the context of the queuer, the task that queued the request. */
const nameContextColumn = ({ column }: NamedField) => `${column}_context`;

const EVENT_ROLES: readonly EventRoles[] = EVENTS.map(findEventRoles);

/** Columns that a scan must read to fill these roles. */
const ROLE_COLUMNS: readonly string[] = EVENT_ROLES.flatMap((roles) => {
  const { operation, place, bytes, queue, queuer, origins } = roles;
  return [
    ...[operation, place, bytes, queue].flatMap((field) => (field ? [field.column] : [])),
    ...(queuer ? [nameContextColumn(queuer)] : []),
    ...(origins ? listOriginColumns(origins.column, ORIGINS_MAX) : []),
  ];
});

const LINE_EVENTS_MAX = 4096;
/** Number of rows between checks of a line's size. */
const PART_ROWS = 512;
/**
 * Length of the names in a line above which the line ends early, because encoding a line should take only milliseconds.
 */
const NAMES_LENGTH_MAX = 256 * 1024;
/** Number of dictionaries at which the dictionaries of earlier lines are dropped. */
const DICTIONARIES_MAX = 1024;

/** Columns that a scan must read for these lines. */
export const LINE_COLUMNS: readonly string[] = [
  ...['duration_ns', 'service', 'context', 'context_source', 'context_quality', 'pid', 'tid', 'comm', 'result'],
  ...ROLE_COLUMNS,
];

/** The arrays of a line, in their order in the line. */
const FIELDS = ['start', 'duration', 'type', 'thread', 'what', 'owner', 'result', 'bytes', 'queue', 'number'] as const;
/** Maximum number of bytes for the name of an array, its brackets and a comma. */
const NAME_BYTES_MAX = 16;
const CLOSING_BRACKET = 0x5d;
const NOTHING = Buffer.alloc(0);

/** The events gathered so far for the next line. */
interface LineDraft {
  count: number;
  /** Number of events at the start of the line whose names are resolved. */
  namedCount: number;
  /** Start time of the first event. */
  baseNs: bigint;
  codes: LineCodes;
  numbers: Record<'start' | 'duration' | 'result' | 'bytes' | 'queue' | 'number', NumberColumn>;
  indexes: Record<'thread' | 'what' | 'owner', Uint32Array>;
}

/** Maximum number of drafts that are kept for later lines. */
const IDLE_MAX = 4;

/** Unused drafts. An answer uses a draft only while it gathers a line, not while it waits for its client. */
const idle: LineDraft[] = [];

function createGathered(): LineDraft {
  const createNumbers = () => createNumberColumn(LINE_EVENTS_MAX);
  const createIndexes = () => new Uint32Array(LINE_EVENTS_MAX);
  return {
    count: 0,
    namedCount: 0,
    baseNs: 0n,
    codes: createLineCodes(LINE_EVENTS_MAX),
    numbers: {
      start: createNumbers(),
      duration: createNumbers(),
      result: createNumbers(),
      bytes: createNumbers(),
      queue: createNumbers(),
      number: createNumbers(),
    },
    indexes: { thread: createIndexes(), what: createIndexes(), owner: createIndexes() },
  };
}

function clearGathered(gathered: LineDraft): LineDraft {
  for (const { large } of Object.values(gathered.numbers)) large.clear();
  return Object.assign(gathered, { count: 0, namedCount: 0 });
}

/**
 * Yields the events in order, as lines of at most 4096 events. A line ends early if the next block is not yet in
 * memory, because reading it takes time. An empty chunk is a pause in which other work can run.
 */
export async function* encodeColumnLines(blocks: AsyncIterable<ScannedBlock>): AsyncGenerator<Buffer, void> {
  const lines = createLineWriter();
  for await (const scanned of blocks) {
    for (const line of lines.add(scanned)) yield line;
    if (!scanned.nextAtHand) yield lines.take();
  }
  const rest = lines.take();
  if (rest.length > 0) yield rest;
}

/** Encodes blocks that arrive one by one, in order of time. */
export interface LineWriter {
  /** Adds all rows, and yields each line that becomes full. The block must be ordered by time. */
  add(scanned: ScannedBlock): Generator<Buffer, void>;
  /** Returns the unfinished line, or an empty buffer if there is none. */
  take(): Buffer;
}

export function createLineWriter(): LineWriter {
  const recordings = createRecordingEntries();
  const threads = createThreadEntries(recordings);
  const whats = createWhatEntries();
  const owners = createOwnerEntries();
  const errors = createLineErrors();
  const origins = createLineOrigins();
  let types: string | undefined = JSON.stringify(Object.fromEntries(EVENTS.map(({ id, name }) => [id, name])));
  let dictionaries = createDictionaryCodes();
  let gathered: LineDraft | undefined;

  /**
   * Resolves the names of many rows at once, which costs less than block by block: if the rows of several recordings
   * alternate, each block has a single row.
   */
  function nameRows({ codes, indexes, numbers, namedCount: from, count: to }: LineDraft): void {
    const rows = { codes, dictionaries, from, to };
    threads.setIndexes(indexes.thread, rows);
    whats.setIndexes(indexes.what, rows);
    owners.setIndexes(indexes.owner, rows);
    errors.add(numbers.result, from, to);
  }

  function addPart(to: LineDraft, part: ScannedBlock): void {
    const { block } = part;
    const at = to.count;
    if (at === 0) to.baseNs = getBigColumn(block, 'timestamp_ns')[0]!;
    setCodes(to.codes, at, part, dictionaries.assignCode(part.dictionary));
    setCommonNumbers(to, block);
    for (const roles of EVENT_ROLES) {
      if (block.typeCounts[roles.id] === 0) continue;
      const rows = findTypeRows(to.codes.event_type, at, block, roles.id);
      setOwnCodes(to.codes, block, roles, rows);
      setOwnNumbers(to, block, roles, rows);
      origins.add(part, roles.id, rows);
    }
    to.count += block.rowCount;
  }

  function take(): Buffer {
    if (!gathered) return NOTHING;
    nameRows(gathered);
    const names = {
      types,
      recordings: recordings.take(),
      threads: threads.take(),
      whats: whats.take(),
      owners: owners.take(),
      errors: errors.take(),
    };
    types = undefined;
    const known = Object.entries(names).filter(([, json]) => json !== undefined);
    const head = [`{"base_ns":"${gathered.baseNs}"`, ...known.map(([name, json]) => `"${name}":${json}`)];
    const line = encodeLine(head.join(), gathered, `,"origins":${origins.take() ?? '[]'}}\n`);
    if (idle.length < IDLE_MAX) idle.push(gathered);
    gathered = undefined;
    // Limits memory, because a store may have a separate dictionary for each block.
    if (dictionaries.count >= DICTIONARIES_MAX) dictionaries = createDictionaryCodes();
    return line;
  }

  const sumNameLengths = () => threads.length + whats.length + owners.length + origins.length;

  /** Returns whether the line is full. Resolves the names of PART_ROWS rows at a time, to know their length. */
  function isFull(of: LineDraft): boolean {
    if (of.count === LINE_EVENTS_MAX) return true;
    if (of.count - of.namedCount < PART_ROWS) return origins.length > NAMES_LENGTH_MAX;
    nameRows(of);
    of.namedCount = of.count;
    return sumNameLengths() > NAMES_LENGTH_MAX;
  }

  return {
    *add(scanned) {
      const { rowCount } = scanned.block;
      let cut: RowCutter | undefined;
      for (let from = 0; from < rowCount; ) {
        gathered ??= clearGathered(idle.pop() ?? createGathered());
        const to = Math.min(from + PART_ROWS, from + LINE_EVENTS_MAX - gathered.count, rowCount);
        // Creating a cutter costs more than adding a short block.
        if (to - from < rowCount) cut ??= createRowCutter(scanned.block);
        addPart(gathered, cut ? { ...scanned, block: cut(from, to) } : scanned);
        from = to;
        if (isFull(gathered)) yield take();
      }
    },
    take,
  };
}

/** Returns the line's rows with the block's events of one type, in ascending order. */
function findTypeRows(
  types: Uint32Array,
  at: number,
  { typeCounts, rowCount }: NumberedBlock,
  type: number,
): Uint32Array {
  const rows = new Uint32Array(typeCounts[type]!);
  for (let row = at, found = 0; found < rows.length && row < at + rowCount; row++)
    if (types[row] === type) rows[found++] = row;
  return rows;
}

function setCommonNumbers({ count: at, baseNs, numbers }: LineDraft, block: NumberedBlock): void {
  const { rowCount } = block;
  setOffsets(numbers.start, at, getBigColumn(block, 'timestamp_ns') as BigUint64Array, rowCount, baseNs);
  setNumbers(numbers.duration, at, getBigColumn(block, 'duration_ns'), rowCount);
  setNumbers(numbers.result, at, getBigColumn(block, 'result'), rowCount, { isSigned: true });
  setNumbers(numbers.number, at, block.numbers, rowCount);
  numbers.bytes.values.fill(Number.NaN, at, at + rowCount);
  numbers.queue.values.fill(Number.NaN, at, at + rowCount);
}

function setOwnNumbers({ numbers }: LineDraft, block: NumberedBlock, roles: EventRoles, rows: Uint32Array): void {
  for (const role of ['bytes', 'queue'] as const) {
    const field = roles[role];
    if (!field) continue;
    const { unknown, columns } = field.kind;
    const isSigned = columns[0]!.storage === 'i64';
    setNumbers(numbers[role], 0, getColumn(block, field.column), rows.length, { rows, unknown, isSigned });
  }
}

/** Buffer in which lines are written before they are copied to a buffer of the right size. */
let scratch = NOTHING;

function encodeLine(head: string, { count, codes, numbers, indexes }: LineDraft, tail: string): Buffer {
  const bytesMax = FIELDS.length * (count * VALUE_BYTES_MAX + NAME_BYTES_MAX);
  if (scratch.length < bytesMax) scratch = Buffer.allocUnsafeSlow(bytesMax);
  const columns = { ...numbers, ...indexes, type: codes.event_type };
  let end = 0;
  for (const name of FIELDS) {
    end += scratch.write(`,"${name}":[`, end, 'latin1');
    end = writeNumbers(scratch, end, columns[name], count);
    scratch[end++] = CLOSING_BRACKET;
  }
  return Buffer.concat([Buffer.from(head), scratch.subarray(0, end), Buffer.from(tail)]);
}

/*
 * Values that many events of a columnar answer share: threads, operations with their files, and owners. Each value is
 * listed once, and events refer to it by index.
 */

/**
 * Number of entries at which all entries are dropped, because memory must not grow with the answer. An entry that
 * occurs again is then listed again, with a new index.
 */
const ENTRIES_MAX = 65_536;

type LineEntry = readonly (string | number | null)[];

/** Entries of one kind. `take` returns the entries that were added since its last call. */
interface LineEntries extends Pick<JsonList, 'take' | 'length'> {
  /** Sets the indexes of the rows `[from, to)`. */
  setIndexes(indexes: Uint32Array, rows: NamelessRows): void;
}

/** Rows `[from, to)` of a line whose names are not resolved yet. */
interface NamelessRows {
  codes: LineCodes;
  dictionaries: DictionaryCodes;
  from: number;
  to: number;
}

/** Creates a list of entries. Rows with equal codes in the columns `names` have the same entry. */
function createLineEntries(
  names: readonly (keyof LineCodes)[],
  readEntry: (codes: LineCodes, row: number, dictionary: Dictionary) => LineEntry,
): LineEntries {
  const found = createJsonList();
  const numbers = createRowNumbers<LineEntry>(names.length, (_, json) => found.add(json));
  /** Number of entries that were dropped so far. An entry's index in the answer is its number plus this number. */
  let first = 0;
  return {
    setIndexes(indexes, { codes, dictionaries, from, to }) {
      if (numbers.count >= ENTRIES_MAX) {
        first += numbers.count;
        numbers.clear();
      }
      const rows = { codes: names.map((name) => codes[name]), from, to, scope: dictionaries };
      const buildEntry = (row: number) => readEntry(codes, row, dictionaries.getDictionary(codes.dictionary[row]!));
      numbers.setNumbers(rows, buildEntry, indexes);
      if (first > 0) for (let row = from; row < to; row++) indexes[row]! += first;
    },
    take: found.take,
    get length() {
      return found.length;
    },
  };
}

interface RecordingEntries extends Pick<JsonList, 'take'> {
  /** Returns the index that the dictionary's recording has in the answer. */
  assignIndex(dictionary: Dictionary, recording: number): number;
}

/** Entries `[recording id, node]`. These entries are never dropped, because there are only as many as files. */
function createRecordingEntries(): RecordingEntries {
  const found = createJsonList();
  const indexes = new Map<string, number>();
  return {
    assignIndex(dictionary, recording) {
      const { recordingId, node } = dictionary.recording(recording);
      const json = JSON.stringify([recordingId, node]);
      let index = indexes.get(json);
      if (index === undefined) {
        index = indexes.size;
        indexes.set(json, index);
        found.add(json);
      }
      return index;
    },
    take: found.take,
  };
}

/** Entries `[index of the recording, pid, tid, comm, service]`. */
function createThreadEntries(recordings: RecordingEntries): LineEntries {
  return createLineEntries(['dictionary', 'recording', 'pid', 'tid', 'comm', 'service'], (codes, row, dictionary) => [
    recordings.assignIndex(dictionary, codes.recording[row]!),
    codes.pid[row]!,
    codes.tid[row]!,
    dictionary.name(codes.comm[row]!),
    dictionary.name(codes.service[row]!),
  ]);
}

/**
 * Entries `[transaction, attribution source, attribution quality, transaction of the task that queued the request]`.
 */
function createOwnerEntries(): LineEntries {
  const names = ['dictionary', 'context', 'context_source', 'context_quality', 'queuer'] as const;
  return createLineEntries(names, (codes, row, dictionary) => [
    dictionary.context(codes.context[row]!).transactionId,
    ATTRIBUTION_SOURCES[codes.context_source[row]!]!,
    ATTRIBUTION_QUALITIES[codes.context_quality[row]!]!,
    dictionary.context(codes.queuer[row]!).transactionId,
  ]);
}

const ROLES_OF = new Map<number, EventRoles>(EVENT_ROLES.map((roles) => [roles.id, roles]));

/** Entries `[operation, file or device, kind of the file]`. */
function createWhatEntries(): LineEntries {
  return createLineEntries(['dictionary', 'event_type', 'operation', 'place'], (codes, row, dictionary) => {
    const { operation, place } = ROLES_OF.get(codes.event_type[row]!)!;
    const placeCode = codes.place[row]!;
    return [
      operation ? getStoredText(operation.kind, codes.operation[row]!, dictionary) : null,
      // A device without a name counts as unknown.
      (place && getStoredText(place.kind, placeCode, dictionary)) || null,
      place?.kind.source === 'file' ? (dictionary.file(placeCode)?.kind ?? 'unknown') : null,
    ];
  });
}

/*
 * Codes of a line's rows. The codes of a row and its dictionary determine the thread, the operation and the owner of
 * the row.
 */

/** Codes that every event has. Each code has the same name as its column. */
const COMMON = ['pid', 'tid', 'comm', 'service', 'context', 'context_source', 'context_quality', 'event_type'] as const;
const CODES = [...COMMON, 'dictionary', 'recording', 'operation', 'place', 'queuer'] as const;

type LineCodes = Record<(typeof CODES)[number], Uint32Array>;

function createLineCodes(length: number): LineCodes {
  return Object.fromEntries(CODES.map((name) => [name, new Uint32Array(length)])) as LineCodes;
}

/** The dictionaries that resolve the codes. */
interface DictionaryCodes {
  /** Returns the code of a dictionary. */
  assignCode(dictionary: Dictionary): number;
  getDictionary(code: number): Dictionary;
  readonly count: number;
}

function createDictionaryCodes(): DictionaryCodes {
  const dictionaries: Dictionary[] = [];
  const codes = new Map<Dictionary, number>();
  return {
    assignCode(dictionary) {
      let code = codes.get(dictionary);
      if (code === undefined) {
        code = dictionaries.push(dictionary) - 1;
        codes.set(dictionary, code);
      }
      return code;
    },
    getDictionary: (code) => dictionaries[code]!,
    get count() {
      return dictionaries.length;
    },
  };
}

/** Sets the codes of the block's rows, starting at index `at`; codes that only some event types have are set to 0. */
function setCodes(to: LineCodes, at: number, { block }: ScannedBlock, dictionaryCode: number): void {
  const { rowCount } = block;
  for (const name of COMMON) copyCodes(getColumn(block, name), to[name], at, rowCount);
  to.dictionary.fill(dictionaryCode, at, at + rowCount);
  const recordings = block.columns.get(RECORDING_COLUMN) as Uint32Array | undefined;
  if (recordings) copyCodes(recordings, to.recording, at, rowCount);
  else to.recording.fill(0, at, at + rowCount);
  to.operation.fill(0, at, at + rowCount);
  to.place.fill(0, at, at + rowCount);
  to.queuer.fill(0, at, at + rowCount);
}

/** Sets the codes that only one event type has; `rows` are the line's rows with events of this type. */
function setOwnCodes(to: LineCodes, block: NumberedBlock, roles: EventRoles, rows: Uint32Array): void {
  const { operation, place, queuer } = roles;
  if (operation) scatterCodes(getColumn(block, operation.column), to.operation, rows);
  if (place) scatterCodes(getColumn(block, place.column), to.place, rows);
  if (queuer) scatterCodes(getColumn(block, nameContextColumn(queuer)), to.queuer, rows);
}

function copyCodes(from: ArrayLike<number>, to: Uint32Array, at: number, count: number): void {
  for (let i = 0; i < count; i++) to[at + i] = from[i]!;
}

function scatterCodes(from: ArrayLike<number>, to: Uint32Array, rows: Uint32Array): void {
  for (let i = 0; i < rows.length; i++) to[rows[i]!] = from[i]!;
}

/* Values that only some events of a columnar line have: errors, and the owners of the data that an event carries. */

/** Number of texts after which all texts are forgotten, because memory must not grow with the answer. */
const TEXTS_MAX = 65_536;

/** Columns of the origin slots, for each event type that has origins; `id` is the id of the type. */
const SLOTS = EVENT_ROLES.flatMap(({ id, origins }) =>
  origins ? [{ id, slots: listOriginSlots(origins.column) }] : [],
);

function listOriginSlots(name: string): { service: string; context: string; bytes: string }[] {
  const columns = listOriginColumns(name, ORIGINS_MAX);
  return Array.from({ length: ORIGINS_MAX }, (_, slot) => {
    const [service, context, bytes] = columns.slice(slot * 3, slot * 3 + 3) as [string, string, string];
    return { service, context, bytes };
  });
}

interface LineOrigins extends Pick<JsonList, 'take' | 'length'> {
  /**
   * Adds `[row, service, transaction, bytes]` for each origin of one type's events, in order of row; `rows` are the
   * rows of these events in the line.
   */
  add(scanned: ScannedBlock, type: number, rows: Uint32Array): void;
}

function createLineOrigins(): LineOrigins {
  const found = createJsonList();
  const getOwnerText = createOwnerEncoder();
  return {
    add({ block, dictionary }, type, rows) {
      const slots = (SLOTS.find(({ id }) => id === type)?.slots ?? []).map((slot) => ({
        services: getColumn(block, slot.service),
        contexts: getColumn(block, slot.context),
        bytes: getBigColumn(block, slot.bytes),
      }));
      if (slots.length === 0) return;
      for (let i = 0; i < rows.length; i++) {
        for (const { services, contexts, bytes } of slots) {
          const service = services[i]!;
          const context = contexts[i]!;
          if (service === 0 && context === 0 && bytes[i] === 0n) continue;
          found.add(`[${rows[i]},${getOwnerText(dictionary, service, context)},${encodeInteger(bytes[i]!)}]`);
        }
      }
    },
    take: found.take,
    get length() {
      return found.length;
    },
  };
}

/** Returns a function that formats a service and a transaction as text: `"shop","order-1"`. */
function createOwnerEncoder(): (dictionary: Dictionary, service: number, context: number) => string {
  let texts = new WeakMap<Dictionary, Map<number, Map<number, string>>>();
  let count = 0;
  return (dictionary, service, context) => {
    const known = texts.get(dictionary)?.get(service)?.get(context);
    if (known !== undefined) return known;
    if (++count > TEXTS_MAX) {
      texts = new WeakMap();
      count = 1;
    }
    const services = texts.get(dictionary) ?? new Map<number, Map<number, string>>();
    const contexts = services.get(service) ?? new Map<number, string>();
    const { transactionId } = dictionary.context(context);
    const text = JSON.stringify([dictionary.name(service), transactionId]).slice(1, -1);
    texts.set(dictionary, services.set(service, contexts.set(context, text)));
    return text;
  };
}

interface LineErrors extends Pick<JsonList, 'take'> {
  /** Adds the error names of the negative results in the rows `[from, to)`, each result only once. */
  add(results: NumberColumn, from: number, to: number): void;
}

function createLineErrors(): LineErrors {
  const found = createJsonList('{', '}');
  const listed = new Set<number | string>();
  return {
    add({ values, large }, from, to) {
      for (let row = from; row < to; row++) {
        if (!(values[row]! < 0)) continue;
        const result = large.get(row) ?? values[row]!;
        if (listed.has(result)) continue;
        if (listed.size >= TEXTS_MAX) listed.clear();
        listed.add(result);
        found.add(`"${result}":${JSON.stringify(nameError(BigInt(result)))}`);
      }
    },
    take: found.take,
  };
}

/*
 * Columns of numbers as JSON. While a line is gathered, its numbers are doubles, because a bigint for each value would
 * take ten times as long. Integers that a double may not represent exactly are stored and written as text.
 */

interface NumberColumn {
  /** NaN stands for a missing number, and an infinity stands for a number in `large`. */
  values: Float64Array;
  /** Integers beyond 2^53 - 1 as decimal text, keyed by their index in `values`. */
  large: Map<number, string>;
}

/** Maximum number of bytes that a value takes as JSON: a sign, 20 digits, two quotes and a comma. */
const VALUE_BYTES_MAX = 24;

const WORD = 2 ** 32;

function createNumberColumn(length: number): NumberColumn {
  return { values: new Float64Array(length), large: new Map() };
}

/** Returns an integer as JSON, in quotes where a double may not represent it exactly. */
function encodeInteger(value: bigint): string {
  return Number.isSafeInteger(Number(value)) ? value.toString() : `"${value}"`;
}

function setLarge({ values, large }: NumberColumn, at: number, value: bigint): void {
  values[at] = value < 0n ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  large.set(at, value.toString());
}

/** Minimum number of values for which creating a view of 32-bit words saves time. */
const WORDS_COUNT_MIN = 8;

function setInteger(to: NumberColumn, at: number, value: bigint): void {
  const number = Number(value);
  if (Number.isSafeInteger(number)) to.values[at] = number;
  else setLarge(to, at, value);
}

interface NumberSource {
  isSigned?: boolean;
  /** Rows that the values belong to, counted from `at`; if omitted, the rows are adjacent. */
  rows?: Uint32Array;
  /** The 64-bit value that stands for a missing number. */
  unknown?: bigint | undefined;
}

/** Copies the first `count` values of a recorded column into `to`, starting at index `at`. */
function setNumbers(to: NumberColumn, at: number, from: ColumnArray, count: number, source: NumberSource = {}): void {
  if (from.BYTES_PER_ELEMENT === 8 && count >= WORDS_COUNT_MIN)
    setByWords(to, at, from as BigUint64Array, count, source);
  else setOneByOne(to, at, from, count, source);
}

function setOneByOne(
  to: NumberColumn,
  at: number,
  from: ColumnArray,
  count: number,
  { rows, unknown }: NumberSource,
): void {
  for (let i = 0; i < count; i++) {
    const row = at + (rows ? rows[i]! : i);
    const value = from[i]!;
    if (typeof value === 'number') to.values[row] = value;
    else if (value === unknown) to.values[row] = Number.NaN;
    else setInteger(to, row, value);
  }
}

function setByWords(to: NumberColumn, at: number, from: BigUint64Array, count: number, source: NumberSource): void {
  const { isSigned = false, rows, unknown } = source;
  const words = toWords(from);
  const signBit = isSigned ? WORD / 2 : WORD;
  const noneLow = unknown === undefined ? -1 : Number(unknown & 0xffffffffn);
  const noneHigh = unknown === undefined ? -1 : Number(unknown >> 32n);
  for (let i = 0; i < count; i++) {
    const row = at + (rows ? rows[i]! : i);
    const low = words[i * 2]!;
    const high = words[i * 2 + 1]!;
    const value = (high >= signBit ? high - WORD : high) * WORD + low;
    if (high === noneHigh && low === noneLow) to.values[row] = Number.NaN;
    else if (Number.isSafeInteger(value)) to.values[row] = value;
    else setLarge(to, row, from[i]!);
  }
}

/** Sets values, starting at index `at`, to the differences between the first `count` times and `base`. */
function setOffsets(to: NumberColumn, at: number, times: BigUint64Array, count: number, base: bigint): void {
  if (count < WORDS_COUNT_MIN) {
    for (let i = 0; i < count; i++) setInteger(to, at + i, times[i]! - base);
    return;
  }
  const words = toWords(times);
  const [baseLow, baseHigh] = [Number(base & 0xffffffffn), Number(base >> 32n)];
  for (let i = 0; i < count; i++) {
    const offset = (words[i * 2 + 1]! - baseHigh) * WORD + (words[i * 2]! - baseLow);
    if (Number.isSafeInteger(offset)) to.values[at + i] = offset;
    else setLarge(to, at + i, times[i]! - base);
  }
}

const ZERO = 0x30;
const MINUS = 0x2d;
const QUOTE = 0x22;
const COMMA = 0x2c;
const NULL = Buffer.from('null');
const NO_LARGE: ReadonlyMap<number, string> = new Map();
const BILLION = 1e9;
const BILLION_DIGITS = 9;

/** Writes the first `count` values, separated by commas; returns the offset of their end. */
function writeNumbers(to: Buffer, at: number, column: NumberColumn | Uint32Array, count: number): number {
  const { values, large } = column instanceof Uint32Array ? { values: column, large: NO_LARGE } : column;
  let end = at;
  for (let i = 0; i < count; i++) {
    const value = values[i]!;
    if (i > 0) to[end++] = COMMA;
    if (value >= 0 && value < BILLION) end = writeSmall(to, end, value);
    else if (Number.isFinite(value)) end = writeInteger(to, end, value);
    else if (Number.isNaN(value)) {
      to.set(NULL, end);
      end += NULL.length;
    } else {
      to[end++] = QUOTE;
      end += to.write(large.get(i)!, end, 'latin1');
      to[end++] = QUOTE;
    }
  }
  return end;
}

function writeInteger(to: Buffer, at: number, value: number): number {
  let end = at;
  if (value < 0) to[end++] = MINUS;
  const size = Math.abs(value);
  if (size < BILLION) return writeSmall(to, end, size);
  const high = Math.floor(size / BILLION);
  end = writeSmall(to, end, high);
  writeDigits(to, end, size - high * BILLION, BILLION_DIGITS);
  return end + BILLION_DIGITS;
}

/** Writes an integer from 0 up to 2^31. */
function writeSmall(to: Buffer, at: number, value: number): number {
  let digits = 1;
  for (let limit = 10; digits < 10 && value >= limit; limit *= 10) digits++;
  writeDigits(to, at, value, digits);
  return at + digits;
}

function writeDigits(to: Buffer, at: number, value: number, digits: number): void {
  let rest = value | 0;
  for (let i = at + digits - 1; i >= at; i--) {
    const quotient = (rest / 10) | 0;
    to[i] = ZERO + rest - quotient * 10;
    rest = quotient;
  }
}
