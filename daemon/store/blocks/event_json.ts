/** Writes rows of a block as JSON, with the same bytes that `stringify` returns for the events. */

import { findQueuer } from '../../../agent/recording/format/queuer.ts';
import { type ColumnArray, type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import { getApiName } from '../../../bpf/schema/define.ts';
import { EVENTS, type EventDefinition, findEventDefinition } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX, type Storage } from '../../../bpf/schema/kinds.ts';
import {
  KEY_BYTES,
  type NativeLayout,
  type NativeTexts,
  nativeTextRows,
  ROW_OPS,
  type RowPart,
  STATE,
  WRITTEN,
} from '../../../bpf/schema/native_text_rows.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { stringify } from '../../base/exact_json.ts';
import { growBuffer } from '../../base/growing_buffer.ts';
import { nameError } from './errno.ts';
import { type Dictionary, RECORDING_COLUMN, type ScannedBlock } from './scanned_block.ts';

/** Buffer space for one event. An event takes 450 to 550 bytes. */
const ROW_BYTES = 576;
const END_OF_EVENT = '}';

const format = createRowFormat(buildEventLayout);

/**
 * Yields all rows, each followed by `ending`, in chunks of at most 96 KiB, or of a single longer row. A chunk reuses
 * the memory of the chunk before the previous chunk, or the buffer that `nextBuffer` returns. A block without rows
 * yields an empty chunk, a pause in which other work can run.
 */
export async function* encodeJsonChunks(
  blocks: AsyncIterable<ScannedBlock>,
  ending: string,
  nextBuffer?: NextBuffer,
): AsyncGenerator<Buffer, void> {
  const rows = createJsonRows(ending, nextBuffer);
  for await (const scanned of blocks) yield* rows.encodeChunks(scanned);
  const rest = rows.takeRest();
  if (rest.length > 0) yield rest;
}

/** Maximum number of writers that are kept for later pages. */
const IDLE_MAX = 4;

/** Unused writers. They are kept, because allocating a writer's buffers takes longer than writing a short page. */
const idle: TextRows[] = [];

/** Yields all rows, each followed by a comma, in chunks that the caller may keep. */
export async function* encodePageChunks(blocks: AsyncIterable<ScannedBlock>): AsyncGenerator<Buffer, void> {
  const rows = idle.pop() ?? createJsonRows(',');
  for await (const scanned of blocks) for (const chunk of rows.encodeChunks(scanned)) yield Buffer.from(chunk);
  const rest = rows.takeRest();
  if (rest.length > 0) yield Buffer.from(rest);
  // An aborted page does not reach this line, so its writer, which may still contain bytes, is not reused.
  if (idle.length < IDLE_MAX) idle.push(rows);
}

/** Returns a writer that works like `encodeJsonChunks`, for blocks that arrive one by one. */
export function createJsonRows(ending: string, nextBuffer?: NextBuffer): TextRows {
  return createTextRows(format, `${END_OF_EVENT}${ending}`, nextBuffer);
}

/** Returns all rows, one after the other, and the end offset of each row. */
export function encodeJsonRows(scanned: ScannedBlock, memory?: Buffer): { bytes: Buffer; ends: Uint32Array } {
  const { rowCount } = scanned.block;
  const write = format(scanned, Buffer.from(END_OF_EVENT));
  const ends = new Uint32Array(rowCount);
  const likelyBytes = (rowCount + 1) * ROW_BYTES;
  let bytes = memory && memory.length >= likelyBytes ? memory : Buffer.allocUnsafe(likelyBytes);
  for (let length = 0; ; ) {
    const { isDone, offset } = write(bytes, length, ends);
    if (isDone) return { bytes: bytes.subarray(0, offset), ends };
    bytes = growBuffer(bytes, offset, bytes.length);
    length = offset;
  }
}

/* The layout of an event as JSON, derived from the definitions in bpf/schema. */

/** Returns the fields of an object as text to insert into another object. */
function encodeJsonFields(values: object): string {
  const inner = stringify(values).slice(1, -1);
  return inner === '' ? '' : `,${inner}`;
}

const encodeFieldName = (name: string) => `,${JSON.stringify(name)}:`;

function buildEventLayout(): RowLayout {
  const build = createLayoutBuilder();
  const common = buildCommonParts(build);
  const own: (RowPart[] | undefined)[] = [];
  for (const event of EVENTS) own[event.id] = buildOwnParts(build, event);
  return build.layout({ common, own: Array.from(own) });
}

function buildCommonParts({ text, number, time, hex, negativeText }: LayoutBuilder): RowPart[] {
  return [
    text([RECORDING_COLUMN], ({ recording }, [index]) => `{"event_id":"${recording(index!).recordingId}-`),
    hex(NUMBER_COLUMN),
    text(['event_type'], (_, [type]) => `","event_type":${stringify(findEventDefinition(type!)!.name)}`),
    number('timestamp_ns', { before: encodeFieldName('timestamp_ns') }),
    time('timestamp_ns', { before: `${encodeFieldName('timestamp')}"`, after: '"' }),
    number('duration_ns', { before: encodeFieldName('duration_ns') }),
    text(['service', 'context', 'context_source', 'context_quality', RECORDING_COLUMN], encodeOwnerFields),
    number('pid', { before: encodeFieldName('pid') }),
    number('tid', { before: encodeFieldName('tid') }),
    text(['comm'], ({ name }, [id]) => encodeJsonFields({ comm: name(id!) })),
    number('cpu', { before: encodeFieldName('cpu') }),
    number('result', { before: encodeFieldName('result') }),
    negativeText('result', encodeErrorField),
  ];
}

function buildOwnParts(build: LayoutBuilder, event: EventDefinition): RowPart[] {
  return Object.entries(event.fields)
    .filter(([name, { kind }]) => !(name in commonFields) && kind.columns.length > 0)
    .map(([fieldName, field]) => {
      const name = getApiName(fieldName, field);
      return buildFieldPart(build, name, field.kind, `${event.name}.${name}`);
    });
}

function buildFieldPart(
  build: LayoutBuilder,
  name: string,
  { source, labels, unknown }: Kind,
  column: string,
): RowPart {
  const { text, number } = build;
  if (source === 'text')
    return text([column], (dictionary, [id]) => encodeJsonFields({ [name]: dictionary.name(id!) }));
  if (source === 'file') return text([column], (dictionary, [id]) => encodeFileFields(name, dictionary, id!));
  if (source === 'queuer') return buildQueuerPart(build, name, column);
  if (source === 'origins') return buildOriginsPart(build, name, column);
  if (labels) return text([column], (_, [value]) => encodeJsonFields({ [name]: labels.get(value!) }));
  return number(column, { before: encodeFieldName(name), none: `${encodeFieldName(name)}null` }, unknown);
}

function buildQueuerPart({ text }: LayoutBuilder, name: string, column: string): RowPart {
  return text([`${column}_service`, `${column}_context`], (dictionary, [service, context]) =>
    encodeJsonFields({ [name]: findQueuer(dictionary, service!, context!) }),
  );
}

function buildOriginsPart({ list }: LayoutBuilder, name: string, column: string): RowPart {
  const surrounding = { before: `${encodeFieldName(name)}[`, after: ']', none: `${encodeFieldName(name)}[]` };
  return list(listOriginColumns(column, ORIGINS_MAX), surrounding, encodeOriginHead);
}

/** Returns an origin as JSON, up to the value of its field `bytes`. */
export function encodeOriginHead(dictionary: Dictionary, [service, context]: readonly number[]): string {
  const { transactionId } = dictionary.context(context!);
  const fields = encodeJsonFields({ service_name: dictionary.name(service!), transaction_id: transactionId });
  return `{${fields.slice(1)},"bytes":`;
}

function encodeOwnerFields(
  dictionary: Dictionary,
  [service, context, source, quality, recording]: readonly number[],
): string {
  const { transactionId, traceId, spanId } = dictionary.context(context!);
  return encodeJsonFields({
    service_name: dictionary.name(service!),
    transaction_id: transactionId,
    trace_id: traceId,
    span_id: spanId,
    attribution: { source: ATTRIBUTION_SOURCES[source!], quality: ATTRIBUTION_QUALITIES[quality!] },
    node: dictionary.recording(recording!).node,
  });
}

/** Returns the signed number that two words of a key represent. */
export function toSignedBigInt([low, high]: readonly number[]): bigint {
  return BigInt.asIntN(64, (BigInt(high!) << 32n) | BigInt(low!));
}

function encodeErrorField(_: Dictionary, words: readonly number[]): string {
  return encodeJsonFields({ error: nameError(toSignedBigInt(words)) });
}

function encodeFileFields(name: string, dictionary: Dictionary, id: number): string {
  const file = dictionary.file(id);
  return encodeJsonFields({ [name]: file?.path ?? null, file_kind: file?.kind ?? 'unknown' });
}

/* Builds layouts of rows. A layout defines which column or text each part of a row shows. */

/** Returns the text for the values of a key's columns. A 64-bit value is given as two words, the low word first. */
type TextMaker = (dictionary: Dictionary, values: readonly number[]) => string;

interface KeyedTexts {
  /** Storage types of the key's columns. */
  storages: readonly Storage[];
  make: TextMaker;
}

export interface RowLayout {
  /** Names of the columns; the parts refer to them by index. */
  columns: readonly string[];
  common: readonly RowPart[];
  /** Parts for the events of one type, indexed by type id. They follow the common parts. */
  own: readonly (readonly RowPart[] | undefined)[];
  /** Tables of texts; a part's `table` is an index into them. */
  tables: readonly KeyedTexts[];
}

/** Name of the column with the number of each row, which a block stores apart from its other columns. */
export const NUMBER_COLUMN = 'number';

const STORAGES = new Map<string, Storage>([
  ...COLUMNS.map(({ name, storage }) => [name, storage] as const),
  [NUMBER_COLUMN, 'u64'],
  [RECORDING_COLUMN, 'u32'],
]);

interface Surrounding {
  before?: string;
  after?: string;
  none?: string;
}

export interface LayoutBuilder {
  literal(text: string): RowPart;
  /** A number in decimal, or the text `none` if the number equals `unknown`. */
  number(column: string, surrounding: Surrounding, unknown?: bigint): RowPart;
  /** Nanoseconds since the epoch as an RFC 3339 time, the text that `formatTime` returns. */
  time(column: string, surrounding: Surrounding): RowPart;
  /** A number as 16 hexadecimal digits. */
  hex(column: string): RowPart;
  /** The text for the values of some columns; together, the values take at most 16 bytes. */
  text(columns: readonly string[], make: TextMaker): RowPart;
  /** The text for a number; all non-negative numbers share one text. */
  negativeText(column: string, make: TextMaker): RowPart;
  /**
   * A list whose elements have three columns. Each element is the text that `make` returns for the first two columns,
   * followed by the number in the third column and `}`.
   */
  list(columns: readonly string[], surrounding: Surrounding, make: TextMaker): RowPart;
  layout(parts: Pick<RowLayout, 'common' | 'own'>): RowLayout;
}

export function createLayoutBuilder(): LayoutBuilder {
  const columns: string[] = [];
  const tables: KeyedTexts[] = [];

  function assignColumnIndex(name: string): number {
    const known = columns.indexOf(name);
    return known === -1 ? columns.push(name) - 1 : known;
  }

  function buildPart(
    op: keyof typeof ROW_OPS,
    names: readonly string[],
    { before = '', after = '', none = '' }: Surrounding = {},
    more: Partial<RowPart> = {},
  ): RowPart {
    return {
      op: ROW_OPS[op],
      before: Buffer.from(before),
      after: Buffer.from(after),
      none: Buffer.from(none),
      columns: Uint32Array.from(names, assignColumnIndex),
      table: 0,
      unknown: undefined,
      ...more,
    };
  }

  function addTable(names: readonly string[], make: TextMaker): Pick<RowPart, 'table'> {
    return { table: tables.push({ storages: names.map((name) => STORAGES.get(name)!), make }) - 1 };
  }

  return {
    literal: (text) => buildPart('literal', [], { before: text }),
    number: (column, surrounding, unknown) => buildPart('number', [column], surrounding, { unknown }),
    time: (column, surrounding) => buildPart('time', [column], surrounding),
    hex: (column) => buildPart('hex', [column]),
    text: (names, make) => buildPart('text', names, {}, addTable(names, make)),
    negativeText: (column, make) => buildPart('negative_text', [column], {}, addTable([column], make)),
    list: (names, surrounding, make) => buildPart('list', names, surrounding, addTable(names.slice(0, 2), make)),
    layout: (parts) => ({ ...parts, columns, tables }),
  };
}

/** Names the columns of each element in a list of origins. */
export function listOriginColumns(column: string, slots: number): string[] {
  return Array.from({ length: slots }, (_, slot) => `${column}_${slot}`).flatMap((slot) => [
    `${slot}_service`,
    `${slot}_context`,
    `${slot}_bytes`,
  ]);
}

/* Writes rows of a block as text without creating events, in C++: see bpf/schema/native_text_rows.ts. */

/**
 * Size of the buffer for a chunk. No row is longer than 32 KiB, so a full chunk exceeds 64 KiB, Node's limit for the
 * queued bytes of a socket. So each write of a full chunk to a slow client reports that the writer must wait.
 */
const CHUNK_BYTES = 96 * 1024;

/**
 * Writes as many rows as fit into `output` after `offset`, continuing where the previous call stopped, and writes the
 * end of each row to `ends`.
 */
type RowsWriter = (output: Uint8Array, offset: number, ends?: Uint32Array) => { isDone: boolean; offset: number };

/** Returns a writer for the rows of a block, each followed by `ending`. */
type RowEncoding = (scanned: ScannedBlock, ending: Uint8Array) => RowsWriter;

/** Creates a format for rows. `makeLayout` is called when the first block is written. */
export function createRowFormat(makeLayout: () => RowLayout): RowEncoding {
  /** Maps each dictionary to its cached texts. */
  const textsOf = new WeakMap<Dictionary, NativeTexts>();
  let made: (RowLayout & { native: NativeLayout }) | undefined;

  function findOrCreateLayout(): RowLayout & { native: NativeLayout } {
    if (made) return made;
    const given = makeLayout();
    const { columns, common, own } = given;
    const native = nativeTextRows.createRowLayout(columns.length, columns.indexOf('event_type'), common, own);
    made = { ...given, native };
    return made;
  }

  function findOrCreateTexts(dictionary: Dictionary): NativeTexts {
    let texts = textsOf.get(dictionary);
    if (!texts) {
      texts = nativeTextRows.createRowTexts();
      textsOf.set(dictionary, texts);
    }
    return texts;
  }

  return ({ block, dictionary }, ending) => {
    const { native, tables, columns: names } = findOrCreateLayout();
    const texts = findOrCreateTexts(dictionary);
    const columns = names.map((name) => findColumn(block, name));
    const ownRows = typeRows(block);
    const state = new Uint32Array(STATE.length);
    const key = new Uint8Array(KEY_BYTES);
    return (output, offset, ends) => {
      state[STATE.offset] = offset;
      for (;;) {
        const end = block.rowCount;
        const written = nativeTextRows.writeTextRows(
          native,
          texts,
          columns,
          ownRows,
          end,
          ending,
          output,
          state,
          key,
          ends,
        );
        if (written !== WRITTEN.missing_text) return { isDone: written === WRITTEN.done, offset: state[STATE.offset]! };
        const table = state[STATE.table]!;
        const { storages, make } = tables[table]!;
        nativeTextRows.addRowText(texts, table, key, Buffer.from(make(dictionary, decodeKeyValues(key, storages))));
      }
    };
  };
}

function findColumn(block: NumberedBlock, name: string): ColumnArray | undefined {
  if (name === NUMBER_COLUMN) return block.numbers;
  const values = block.columns.get(name);
  return values ?? (name === RECORDING_COLUMN ? new Uint32Array(block.rowCount) : undefined);
}

function decodeKeyValues(key: Uint8Array, storages: readonly Storage[]): number[] {
  const view = new DataView(key.buffer);
  let offset = 0;
  return storages.flatMap((storage) => {
    const at = offset;
    switch (storage) {
      case 'u8':
        offset += 1;
        return view.getUint8(at);
      case 'u16':
        offset += 2;
        return view.getUint16(at, true);
      case 'u32':
        offset += 4;
        return view.getUint32(at, true);
      case 'i32':
        offset += 4;
        return view.getInt32(at, true);
      default:
        offset += 8;
        return [view.getUint32(at, true), view.getUint32(at + 4, true)];
    }
  });
}

interface TextRows {
  encodeChunks(scanned: ScannedBlock): Generator<Buffer, void>;
  /** Returns the bytes that no chunk has contained yet. */
  takeRest(): Buffer;
}

/** Returns the buffer to write to next, while the chunk in `filled` is sent. */
export type NextBuffer = (filled: Buffer) => Buffer;

function createChunkBuffer(): Buffer {
  return Buffer.allocUnsafeSlow(CHUNK_BYTES);
}

function alternateBuffers(): NextBuffer {
  let other = createChunkBuffer();
  return (filled) => {
    const next = other;
    other = filled;
    return next;
  };
}

/**
 * Returns a writer of rows in chunks of at most 96 KiB, or of a single longer row. A chunk reuses the memory of the
 * chunk before the previous chunk, or the buffer that `nextBuffer` returns. A block without rows yields an empty chunk,
 * a pause in which other work can run.
 */
export function createTextRows(
  format: RowEncoding,
  ending: string,
  nextBuffer: NextBuffer = alternateBuffers(),
): TextRows {
  const endOfRow = Buffer.from(ending);
  let bytes = createChunkBuffer();
  let length = 0;

  function take(): Buffer {
    const chunk = bytes.subarray(0, length);
    if (length > 0) bytes = nextBuffer(bytes);
    length = 0;
    return chunk;
  }

  return {
    *encodeChunks(scanned) {
      const write = format(scanned, endOfRow);
      for (;;) {
        const { isDone, offset } = write(bytes, length);
        length = offset;
        if (isDone) break;
        if (length > 0) yield take();
        else bytes = Buffer.allocUnsafeSlow(bytes.length * 2);
      }
      // Reading the next block takes time, so the rows written so far are sent now.
      if (!scanned.nextAtHand) yield take();
    },
    takeRest: take,
  };
}

export interface JsonList {
  add(json: string): void;
  /** Returns all values as the text of an array or an object, and drops them; undefined if there are none. */
  take(): string | undefined;
  /** Total length of the values' texts. */
  readonly length: number;
}

/** Gathers values that are JSON already; `open` and `close` are the brackets around them. */
export function createJsonList(open = '[', close = ']'): JsonList {
  let values: string[] = [];
  let length = 0;
  return {
    add(json) {
      values.push(json);
      length += json.length;
    },
    take() {
      if (values.length === 0) return undefined;
      const all = `${open}${values.join(',')}${close}`;
      values = [];
      length = 0;
      return all;
    },
    get length() {
      return length;
    },
  };
}
