/**
 * Converts decoded answers of the table `event` to blocks like those of a recording. An event that was sent several
 * times may have several rows, which are adjacent in the total order. Such an event is returned once.
 */

import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import type { DecodedColumn, NativeBlock } from '../../../agent/clickhouse/native/decode.ts';
import type { Lists, SimpleValues } from '../../../agent/clickhouse/native/encode.ts';
import { decodeText, type Texts } from '../../../agent/clickhouse/native/texts.ts';
import type { NativeType } from '../../../agent/clickhouse/native/types.ts';
import { EVENT_COLUMNS, type SourcePart } from '../../../agent/clickhouse/tables/event_columns.ts';
import { toWords } from '../../../agent/recording/words64.ts';
import {
  type ColumnArray,
  createBlock,
  createColumnArray,
  getArrayClass,
  type NumberedBlock,
} from '../../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import type { Fields } from '../../../bpf/schema/define.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import type { ColumnSource } from '../../../bpf/schema/kinds.ts';
import {
  type Context,
  type Dictionary,
  type NodeRecording,
  RECORDING_COLUMN,
  type ScannedBlock,
} from '../blocks/scanned_block.ts';

const BLOCK_ROWS_MAX = 4096;
/**
 * Number of dictionary entries above which an answer gets a new dictionary, because memory must not grow with the
 * answer.
 */
const ENTRIES_MAX = 65_536;
/** Number of a label that this version of kreplay does not know. */
const UNKNOWN_LABEL = 0xffff;

/** The position of a row in the total order. */
export interface RowKey {
  timestampNs: bigint;
  recording: bigint;
  number: bigint;
}

export interface AnswerBlocks {
  /** Names of the columns to select. */
  readonly selected: readonly string[];
  /** Key of the last row in the blocks decoded so far. */
  readonly last: RowKey | undefined;
  /** Yields the rows in blocks, at most `rowsMax` rows in all. If there are no rows, there is no block. */
  read(decoded: NativeBlock, rowsMax: number): Generator<ScannedBlock, void>;
  /** Creates a block without rows. */
  createEmptyBlock(): ScannedBlock;
}

const TYPE_IDS = new Map<string, number>(EVENTS.map(({ name, id }) => [name, id]));

/** Creates a converter for one answer. `wanted` contains names of a recording's columns; all columns if omitted. */
export function createAnswerBlocks(wanted?: readonly string[]): AnswerBlocks {
  const columns = buildAnswerColumns(wanted);
  let dictionary = createAnswerDictionary();
  let last: RowKey | undefined;

  return {
    selected: listSelectedColumns(columns),
    get last() {
      return last;
    },
    *read(decoded, rowsMax) {
      const types = readEventTypes(decoded);
      const rows = selectDistinctRows(decoded, types, last).subarray(0, rowsMax);
      if (decoded.rowCount > 0) last = readRowKey(decoded, decoded.rowCount - 1);
      for (let from = 0; from < rows.length; from += BLOCK_ROWS_MAX) {
        if (dictionary.size > ENTRIES_MAX) dictionary = createAnswerDictionary();
        const to = Math.min(from + BLOCK_ROWS_MAX, rows.length);
        const block = buildBlock({ decoded, types, rows: rows.subarray(from, to), dictionary }, columns);
        yield { block, dictionary, nextAtHand: to < rows.length };
      }
    },
    createEmptyBlock() {
      const block = createBlock(
        0,
        columns.map(({ column }) => column),
      );
      block.columns.set(RECORDING_COLUMN, new Uint32Array(0));
      return { block: { ...block, numbers: new BigUint64Array(0) }, dictionary };
    },
  };
}

function readEventTypes(decoded: NativeBlock): Uint8Array {
  const types = new Uint8Array(decoded.rowCount);
  const readType = createTextNumberReader(readTextColumn(decoded, 'event_type'), (name) => TYPE_IDS.get(name) ?? 0);
  for (let row = 0; row < types.length; row++) types[row] = readType(row);
  return types;
}

function readRowKey(decoded: NativeBlock, row: number): RowKey {
  const readKeyPart = (name: string) => readNumberColumn(decoded, name, BigUint64Array)[row]!;
  return {
    timestampNs: readKeyPart('timestamp_ns'),
    recording: readKeyPart('recording'),
    number: readKeyPart('number'),
  };
}

/**
 * Selects the rows whose key differs from the key of the previous row. Events of types that only a newer kreplay
 * records are left out.
 */
function selectDistinctRows(decoded: NativeBlock, types: Uint8Array, before: RowKey | undefined): Uint32Array {
  const rows = new Uint32Array(decoded.rowCount);
  const keys = ['number', 'recording', 'timestamp_ns'].map((name) =>
    toWords(readNumberColumn(decoded, name, BigUint64Array)),
  );
  const isSame = (row: number) =>
    keys.every((words) => words[row * 2] === words[row * 2 - 2] && words[row * 2 + 1] === words[row * 2 - 1]);
  let count = 0;
  for (let row = 0; row < decoded.rowCount; row++) {
    if (types[row] === 0 || (row > 0 ? isSame(row) : before && isKey(before, readRowKey(decoded, 0)))) continue;
    rows[count++] = row;
  }
  return rows.subarray(0, count);
}

function isKey(a: RowKey, b: RowKey): boolean {
  return a.number === b.number && a.recording === b.recording && a.timestampNs === b.timestampNs;
}

/** Rows of a decoded answer that become a block. */
interface AnswerChunk {
  decoded: NativeBlock;
  /** Type ids of all rows of the answer. */
  types: Uint8Array;
  rows: Uint32Array;
  dictionary: AnswerDictionary;
}

function buildBlock(chunk: AnswerChunk, columns: readonly AnswerColumn[]): NumberedBlock {
  const { decoded, types, rows, dictionary } = chunk;
  const block = createBlock(0, []);
  for (let i = 0; i < rows.length; i++) block.typeCounts[types[rows[i]!]!]!++;
  const rowsOf = [rows, ...groupRowsByType(block.typeCounts, types, rows)];
  for (const one of columns) block.columns.set(one.column.name, buildColumn(chunk, one, rowsOf[one.column.eventType]!));
  const recordings = readNumberColumn(decoded, 'recording', BigUint64Array);
  const nodes = readTextColumn(decoded, 'node');
  const nodeNames: string[] = [];
  const readNode = createTextNumberReader(nodes, (name) => nodeNames.push(name) - 1);
  const words = toWords(recordings);
  let [low, high, index] = [0, 0, -1];
  const indexes = Uint32Array.from(rows, (row) => {
    if (index < 0 || words[row * 2] !== low || words[row * 2 + 1] !== high) {
      [low, high] = [words[row * 2]!, words[row * 2 + 1]!];
      index = dictionary.assignRecordingIndex(recordings[row]!, nodeNames[readNode(row)]!);
    }
    return index;
  });
  block.columns.set(RECORDING_COLUMN, indexes);
  const numbers = selectValues(readNumberColumn(decoded, 'number', BigUint64Array), rows);
  return { ...block, rowCount: rows.length, numbers };
}

/** Groups the rows by event type; the first group has the rows of type 1. */
function groupRowsByType(counts: Uint32Array, types: Uint8Array, rows: Uint32Array): Uint32Array[] {
  const found = Array.from(counts, (count) => new Uint32Array(count));
  const next = new Uint32Array(counts.length);
  for (let i = 0; i < rows.length; i++) {
    const type = types[rows[i]!]!;
    found[type]![next[type]!++] = rows[i]!;
  }
  return found.slice(1);
}

function buildColumn(chunk: AnswerChunk, one: AnswerColumn, rows: Uint32Array): ColumnArray {
  const { decoded, types } = chunk;
  const [first] = one.from;
  if (one.as === 'number')
    return selectValues(readNumberColumn(decoded, first!, getArrayClass(one.column.storage)), rows);
  if (one.as === 'event_type') return selectValues(types, rows);
  const made = createColumnArray(one.column.storage, rows.length);
  if (rows.length === 0) return made;
  if (one.as === 'origin' && one.part === 'bytes') return readOriginBytes(decoded, first!, one.slot, rows, made);
  const readNumber = createNumberReader(chunk, one);
  for (let i = 0; i < rows.length; i++) made[i] = readNumber(rows[i]!);
  return made;
}

function createNumberReader({ decoded, dictionary }: AnswerChunk, one: AnswerColumn): (row: number) => number {
  const [first, second] = one.from;
  switch (one.as) {
    case 'label':
      return createTextNumberReader(readTextColumn(decoded, first!), (word) => one.numbers.get(word) ?? UNKNOWN_LABEL);
    case 'context':
      return createContextReader(decoded, one.from, dictionary);
    case 'file':
      return createFileReader(decoded, first!, second!, dictionary);
    case 'origin':
      if (one.part === 'context') return createOriginContextReader(decoded, one.from, one.slot, dictionary);
      return createOriginServiceReader(decoded, first!, one.slot, dictionary);
    default:
      return createTextNumberReader(readTextColumn(decoded, first!), dictionary.assignNameId);
  }
}

function createFileReader(decoded: NativeBlock, path: string, kind: string, dictionary: AnswerDictionary) {
  const kinds: string[] = [];
  const readKind = createTextNumberReader(readTextColumn(decoded, kind), (text) => kinds.push(text) - 1);
  let ofKind = '';
  const readFile = createTextNumberReader(readTextColumn(decoded, path), (text) =>
    dictionary.assignFileId(text, ofKind),
  );
  return (row: number) => {
    ofKind = kinds[readKind(row)]!;
    return ofKind === '' ? 0 : readFile(row);
  };
}

function createOriginServiceReader(decoded: NativeBlock, name: string, slot: number, dictionary: AnswerDictionary) {
  const { ends, items } = readTextListColumn(decoded, name);
  const at = createOriginPlaceFinder(ends, slot);
  const readName = createTextNumberReader(items, dictionary.assignNameId);
  return (row: number) => {
    const place = at(row);
    return place < 0 ? 0 : readName(place);
  };
}

function readOriginBytes(decoded: NativeBlock, name: string, slot: number, rows: Uint32Array, made: ColumnArray) {
  const { ends, items: values } = readWideListColumn(decoded, name);
  const at = createOriginPlaceFinder(ends, slot);
  const bytes = made as BigUint64Array;
  for (let i = 0; i < rows.length; i++) {
    const place = at(rows[i]!);
    if (place >= 0) bytes[i] = values[place]!;
  }
  return bytes;
}

/* Finds the columns of the table `event` from which the columns of a recording are made. */

/** The part of an origin that a column contains. */
type OriginPart = 'service' | 'context' | 'bytes';

type AnswerColumn = {
  column: Column;
  /**
   * Names of the columns in the table. A file has two columns, for its path and its kind. A context has one column for
   * each of its parts. All other values have one column.
   */
  from: readonly string[];
} & (
  | { as: 'number' | 'event_type' | 'name' | 'file' | 'context' }
  | { as: 'label'; numbers: ReadonlyMap<string, number> }
  | { as: 'origin'; slot: number; part: OriginPart }
);

/** Columns that every block has, even if they are not wanted. */
const ALWAYS = ['event_type', 'timestamp_ns'];
/** Columns of the table that every statement selects, to identify each row. */
const KEY_COLUMNS = ['timestamp_ns', 'recording', 'number', 'node', 'event_type'] as const;
const CONTEXT_PARTS: readonly SourcePart[] = ['transaction', 'trace', 'span'];

const ORIGIN_PARTS: Record<OriginPart, readonly SourcePart[]> = {
  service: ['origin_services'],
  context: ['origin_transactions', 'origin_traces'],
  bytes: ['origin_bytes'],
};

/** Builds the wanted columns. `wanted` contains names of a recording's columns; all columns if omitted. */
function buildAnswerColumns(wanted?: readonly string[]): AnswerColumn[] {
  const names = wanted && new Set([...ALWAYS, ...wanted]);
  return COLUMNS.filter(({ name }) => !names || names.has(name)).map(buildAnswerColumn);
}

/** Returns the names of the table columns that a statement must select. */
function listSelectedColumns(columns: readonly AnswerColumn[]): string[] {
  return [...new Set([...KEY_COLUMNS, ...columns.flatMap(({ from }) => from)])];
}

function buildAnswerColumn(column: Column): AnswerColumn {
  const findColumnNames = (parts: readonly SourcePart[]) =>
    parts.map(
      (wanted) => EVENT_COLUMNS.find(({ part, source }) => part === wanted && source.name === column.name)!.name,
    );
  const buildSimpleColumn = (as: 'name' | 'event_type' | 'number', part: SourcePart): AnswerColumn => ({
    column,
    as,
    from: findColumnNames([part]),
  });
  const source: ColumnSource = column.source;
  switch (source) {
    case 'text':
      return buildSimpleColumn('name', 'text');
    case 'process':
      return buildSimpleColumn('name', 'service');
    case 'file':
      return { column, as: 'file', from: findColumnNames(['path', 'file_kind']) };
    case 'context':
      return column.slot > 0
        ? buildSimpleColumn('number', 'number')
        : { column, as: 'context', from: findColumnNames(CONTEXT_PARTS) };
    case 'queuer':
      if (column.slot === 0) return buildSimpleColumn('name', 'queuer_service');
      return { column, as: 'context', from: findColumnNames(['queuer_transaction', 'queuer_trace']) };
    case 'origins':
      return buildOriginColumn(column);
    case 'value':
    case 'boot_time': {
      if (column.name === 'event_type') return buildSimpleColumn('event_type', 'event_type');
      const labels = findColumnLabels(column);
      if (!labels) return buildSimpleColumn('number', 'number');
      const numbers = new Map([...labels].map(([number, label]) => [label, number] as const));
      return { column, as: 'label', from: findColumnNames(['label']), numbers };
    }
  }
}

function buildOriginColumn(column: Column): AnswerColumn {
  const [, slot, part] = /_(\d+)_(service|context|bytes)$/.exec(column.name) as unknown as [string, string, OriginPart];
  // All event types with origins use the same list columns of the table.
  const from = ORIGIN_PARTS[part].map((wanted) => EVENT_COLUMNS.find((one) => one.part === wanted)!.name);
  return { column, as: 'origin', from, slot: Number(slot), part };
}

/** Returns the words that the numbers of a label column stand for; undefined for other columns. */
export function findColumnLabels({ eventType, field }: Column): ReadonlyMap<number, string> | undefined {
  const fields: Fields = EVENTS.find(({ id }) => id === eventType)?.fields ?? {};
  return fields[field]?.kind.labels;
}

/*
 * Assigns numbers to the names, files, contexts and recordings of an answer, so that its rows are like those of a
 * recording.
 */

export interface AnswerDictionary extends Dictionary {
  /** Returns the number of a name; 0 for an empty name. */
  assignNameId(text: string): number;
  assignFileId(path: string, kind: string): number;
  /**
   * Returns the number of a context. `key` is the text of transaction, trace and span together. An absent trace or span
   * is all zeros.
   */
  assignContextId(key: string, transaction: string, trace: Buffer, span: Buffer): number;
  assignRecordingIndex(id: bigint, node: string): number;
  /** Number of entries in the dictionary. */
  readonly size: number;
}

const NO_CONTEXT: Context = { transactionId: null, traceId: null, spanId: null };

function createAnswerDictionary(): AnswerDictionary {
  const names = [''];
  const nameIds = new Map([['', 0]]);
  const files: ({ path: string; kind: string } | undefined)[] = [undefined];
  const fileIds = new Map<string, Map<string, number>>();
  const contexts = [NO_CONTEXT];
  const contextIds = new Map<string, number>();
  const recordings: NodeRecording[] = [];
  const recordingIndexes = new Map<bigint, number>();

  return {
    name: (id) => names[id]!,
    file: (id) => files[id],
    context: (id) => contexts[id]!,
    recording: (index) => recordings[index]!,
    assignNameId(text) {
      let id = nameIds.get(text);
      if (id === undefined) {
        id = names.push(text) - 1;
        nameIds.set(text, id);
      }
      return id;
    },
    assignFileId(path, kind) {
      if (kind === '') return 0;
      const ofKind = fileIds.get(kind) ?? new Map<string, number>();
      let id = ofKind.get(path);
      if (id === undefined) {
        id = files.push({ path, kind }) - 1;
        fileIds.set(kind, ofKind.set(path, id));
      }
      return id;
    },
    assignContextId(key, transaction, trace, span) {
      let id = contextIds.get(key);
      if (id === undefined) {
        id = contexts.push(buildContext(transaction, trace, span)) - 1;
        contextIds.set(key, id);
      }
      return id;
    },
    assignRecordingIndex(id, node) {
      let index = recordingIndexes.get(id);
      if (index === undefined) {
        index = recordings.push({ recordingId: formatRecordingId(id), node }) - 1;
        recordingIndexes.set(id, index);
      }
      return index;
    },
    get size() {
      return names.length + files.length + contexts.length + recordings.length;
    },
  };
}

/** Formats the id of a recording, which the tables store as a number. */
export function formatRecordingId(id: bigint): string {
  return id.toString(16).padStart(16, '0');
}

function buildContext(transaction: string, trace: Buffer, span: Buffer): Context {
  return {
    transactionId: transaction === '' ? null : transaction,
    traceId: toHexOrNull(trace),
    spanId: toHexOrNull(span),
  };
}

/** Returns null for bytes that are all zero. */
function toHexOrNull(bytes: Buffer): string | null {
  return bytes.every((byte) => byte === 0) ? null : bytes.toString('hex');
}

/* Converts contexts, which the table stores as texts and ids, to numbers of the answer's dictionary. */

const TRACE_BYTES = 16;
const SPAN_BYTES = 8;
const NO_SPAN = Buffer.alloc(SPAN_BYTES);

/** Returns a function that reads the context of a row, from columns that may lack spans. */
function createContextReader(
  decoded: NativeBlock,
  [transaction, trace, span]: readonly string[],
  dictionary: AnswerDictionary,
): (row: number) => number {
  const transactions = readTextColumn(decoded, transaction!);
  const traces = readIdColumn(decoded, trace!, TRACE_BYTES);
  const spans = span === undefined ? undefined : readIdColumn(decoded, span, SPAN_BYTES);
  return createOwnerReader(
    transactions,
    traces,
    (row) => spans?.subarray(row * SPAN_BYTES, (row + 1) * SPAN_BYTES) ?? NO_SPAN,
    dictionary,
  );
}

/** Returns a function that reads the context of an origin. */
function createOriginContextReader(
  decoded: NativeBlock,
  [transaction, trace]: readonly string[],
  slot: number,
  dictionary: AnswerDictionary,
): (row: number) => number {
  const { ends, items } = readTextListColumn(decoded, transaction!);
  const traces = readIdListColumn(decoded, trace!, TRACE_BYTES);
  // An item has the same index in both columns.
  if (ends.at(-1) !== traces.ends.at(-1)) throw createUnexpectedError('transactions and traces are not as many');
  const at = createOriginPlaceFinder(ends, slot);
  const readContext = createOwnerReader(items, traces.items, () => NO_SPAN, dictionary);
  return (row) => {
    const place = at(row);
    return place < 0 ? 0 : readContext(place);
  };
}

/** Returns a function that finds the item of a slot in a row's list; -1 if the list is shorter. */
function createOriginPlaceFinder(ends: Uint32Array, slot: number): (row: number) => number {
  return (row) => {
    const place = (row === 0 ? 0 : ends[row - 1]!) + slot;
    return place < ends[row]! ? place : -1;
  };
}

function createOwnerReader(
  transactions: Texts,
  traces: Buffer,
  readSpan: (row: number) => Buffer,
  dictionary: AnswerDictionary,
): (row: number) => number {
  const { table, ids } = transactions;
  if (ids) throw createUnexpectedError('transactions have numbers');
  /** The last context is cached, because most events have the same context as the previous event. */
  let [lastKey, lastId] = ['', 0];
  return (row) => {
    const trace = traces.subarray(row * TRACE_BYTES, (row + 1) * TRACE_BYTES);
    const span = readSpan(row);
    const transaction = table.bytes.toString('latin1', table.starts[row]!, table.ends[row]!);
    const key = `${trace.toString('latin1')}${span.toString('latin1')}${transaction}`;
    if (key === lastKey) return lastId;
    const isNone = transaction === '' && isZero(trace) && isZero(span);
    lastId = isNone ? 0 : dictionary.assignContextId(key, decodeText(transactions, row), trace, span);
    lastKey = key;
    return lastId;
  };
}

function isZero(bytes: Buffer): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) return false;
  return true;
}

/* Reads columns of a decoded answer. Throws if a column does not have the type of the table's column. */

function getDecodedColumn({ columns }: NativeBlock, name: string): DecodedColumn {
  const found = columns.get(name);
  if (!found) throw createUnexpectedError(`it has no column ${name}`);
  return found;
}

export function createUnexpectedError(what: string): ServerError {
  return new ServerError('malformed', 'repeat', `an answer of the fleet's tables is not what was asked for: ${what}`);
}

export function readNumberColumn<Values extends ColumnArray>(
  decoded: NativeBlock,
  name: string,
  array: new (length: number) => Values,
): Values {
  const { values } = getDecodedColumn(decoded, name);
  if (!(values instanceof array)) throw createUnexpectedError(`${name} is no number, or one of another width`);
  return values;
}

export function readTextColumn(decoded: NativeBlock, name: string): Texts {
  const { values } = getDecodedColumn(decoded, name);
  if (!('table' in values)) throw createUnexpectedError(`${name} is no text`);
  return values;
}

/** Returns the ids of a column, `length` bytes each, as one buffer. */
function readIdColumn(decoded: NativeBlock, name: string, length: number): Buffer {
  const { type, values } = getDecodedColumn(decoded, name);
  if (type.kind !== 'fixed_text' || type.bytes !== length) throw createUnexpectedError(`${name} is no id`);
  return toBuffer(values as SimpleValues);
}

function toBuffer(values: SimpleValues): Buffer {
  const { buffer, byteOffset, byteLength } = values as Uint8Array<ArrayBuffer>;
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** A column of lists: the end of each row's list, and the items of all lists. */
interface ListsOf<Items> {
  ends: Uint32Array;
  items: Items;
}

function readListColumn(decoded: NativeBlock, name: string, kind: NativeType['kind']): Lists {
  const { type, values } = getDecodedColumn(decoded, name);
  if (type.kind !== 'list' || type.item.kind !== kind || !('items' in values))
    throw createUnexpectedError(`${name} is no list`);
  return values;
}

export function readTextListColumn(decoded: NativeBlock, name: string): ListsOf<Texts> {
  return readListColumn(decoded, name, 'text') as ListsOf<Texts>;
}

function readWideListColumn(decoded: NativeBlock, name: string): ListsOf<BigUint64Array> {
  const { ends, items } = readListColumn(decoded, name, 'integer');
  if (!(items instanceof BigUint64Array)) throw createUnexpectedError(`${name} has numbers of another width`);
  return { ends, items };
}

/** Reads a column of lists of ids, `length` bytes each. */
function readIdListColumn(decoded: NativeBlock, name: string, length: number): ListsOf<Buffer> {
  const { type } = getDecodedColumn(decoded, name);
  const { ends, items } = readListColumn(decoded, name, 'fixed_text');
  if (type.kind !== 'list' || type.item.kind !== 'fixed_text' || type.item.bytes !== length)
    throw createUnexpectedError(`${name} has no ids`);
  return { ends, items: toBuffer(items) };
}

/**
 * Returns a function that returns the number of a row's text. If the column has a table of texts, `findNumber` is
 * called only once for each text.
 */
function createTextNumberReader(texts: Texts, findNumber: (text: string) => number): (row: number) => number {
  const { table, ids } = texts;
  if (!ids) return (row) => findNumber(decodeText(texts, row));
  const known = new Float64Array(table.length).fill(-1);
  return (row) => {
    const id = ids[row]!;
    if (known[id]! < 0) known[id] = findNumber(decodeText(texts, row));
    return known[id]!;
  };
}

/** Returns the values of these rows. For adjacent rows, the result is a view of `values`. */
export function selectValues<Values extends ColumnArray>(values: Values, rows: Uint32Array): Values {
  const first = rows[0] ?? 0;
  if (isRun(rows)) return values.subarray(first, first + rows.length) as Values;
  const made = new (values.constructor as new (length: number) => Values)(rows.length);
  if (values.BYTES_PER_ELEMENT === 8) copyWords(values as BigUint64Array, made as BigUint64Array, rows);
  else for (let i = 0; i < rows.length; i++) made[i] = values[rows[i]!]!;
  return made;
}

function isRun(rows: Uint32Array): boolean {
  return rows.length === 0 || rows.at(-1)! - rows[0]! === rows.length - 1;
}

/** Copies values as 32-bit words, because a bigint for each value would take ten times as long. */
function copyWords(from: BigUint64Array, to: BigUint64Array, rows: Uint32Array): void {
  const read = toWords(from);
  const written = toWords(to);
  for (let i = 0; i < rows.length; i++) {
    written[i * 2] = read[rows[i]! * 2]!;
    written[i * 2 + 1] = read[rows[i]! * 2 + 1]!;
  }
}
