/** Writes rows of a block as JSON without creating events: the same bytes as `stringify` gives for the event. */
import { type ColumnArray, type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import type { Storage } from '../../../bpf/schema/kinds.ts';
import {
  type JsonLayout,
  type JsonTexts,
  KEY_BYTES,
  nativeJson,
  STATE,
  WRITTEN,
} from '../../../bpf/schema/native_json.ts';
import { type EventLayout, layoutOfEvents, NUMBER_COLUMN } from './event_layout.ts';
import { type Dictionary, RECORDING_COLUMN, type ScannedBlock } from './scanned_block.ts';

/**
 * Size of the buffer for a piece. A piece that is full has more than the 64 KiB that Node queues for a socket, as no row
 * is longer than the rest: only then does a client that does not read count as one that is waited for.
 */
const PIECE_BYTES = 96 * 1024;
/** An event takes 400 to 500 bytes. */
const ROW_BYTES = 512;
const END_OF_EVENT = '}';

let made: (EventLayout & { native: JsonLayout }) | undefined;

function eventLayout(): EventLayout & { native: JsonLayout } {
  if (made) return made;
  const layout = layoutOfEvents();
  const { columns, common, own } = layout;
  const native = nativeJson.createJsonLayout(columns.length, columns.indexOf('event_type'), common, own);
  made = { ...layout, native };
  return made;
}

/** Texts of every dictionary in use. */
const textsOf = new WeakMap<Dictionary, JsonTexts>();

function textsFor(dictionary: Dictionary): JsonTexts {
  let texts = textsOf.get(dictionary);
  if (!texts) {
    texts = nativeJson.createJsonTexts();
    textsOf.set(dictionary, texts);
  }
  return texts;
}

/**
 * Writes the rows that follow those of the call before to `output`, as many as fit there after `offset`; sets the end
 * of each row in `ends`.
 */
type RowsWriter = (output: Uint8Array, offset: number, ends?: Uint32Array) => { isDone: boolean; offset: number };

function rowsWriter({ block, dictionary }: ScannedBlock, ending: Uint8Array): RowsWriter {
  const layout = eventLayout();
  const texts = textsFor(dictionary);
  const columns = layout.columns.map((name) => columnOf(block, name));
  const ownRows = typeRows(block);
  const state = new Uint32Array(STATE.length);
  const key = new Uint8Array(KEY_BYTES);
  const { native } = layout;
  return (output, offset, ends) => {
    state[STATE.offset] = offset;
    for (;;) {
      const end = block.rowCount;
      const written = nativeJson.writeJsonRows(native, texts, columns, ownRows, end, ending, output, state, key, ends);
      if (written !== WRITTEN.missing_text) return { isDone: written === WRITTEN.done, offset: state[STATE.offset]! };
      const table = state[STATE.table]!;
      const { storages, make } = layout.tables[table]!;
      nativeJson.addJsonText(texts, table, key, Buffer.from(make(dictionary, keyValues(key, storages))));
    }
  };
}

function columnOf(block: NumberedBlock, name: string): ColumnArray | undefined {
  if (name === NUMBER_COLUMN) return block.numbers;
  const values = block.columns.get(name);
  return values ?? (name === RECORDING_COLUMN ? new Uint32Array(block.rowCount) : undefined);
}

function keyValues(key: Uint8Array, storages: readonly Storage[]): number[] {
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

/**
 * Yields all rows, each followed by `ending`, in pieces of at most 96 KiB, or of one longer row; a piece reuses the
 * memory of the last but one, or what `nextBuffer` returns. A block without rows yields an empty piece: a pause.
 */
export async function* jsonPieces(
  blocks: AsyncIterable<ScannedBlock>,
  ending: string,
  nextBuffer?: NextBuffer,
): AsyncGenerator<Buffer, void> {
  const rows = jsonRows(ending, nextBuffer);
  for await (const scanned of blocks) yield* rows.pieces(scanned);
  const rest = rows.rest();
  if (rest.length > 0) yield rest;
}

/** Number of writers that are kept for later pages. */
const IDLE_MAX = 4;

/** Writers that no page uses: allocating the buffers of one takes longer than writing a short page. */
const idle: JsonRows[] = [];

/** Yields all rows, each followed by a comma, in pieces that the caller may keep. */
export async function* pagePieces(blocks: AsyncIterable<ScannedBlock>): AsyncGenerator<Buffer, void> {
  const rows = idle.pop() ?? jsonRows(',');
  for await (const scanned of blocks) for (const piece of rows.pieces(scanned)) yield Buffer.from(piece);
  const rest = rows.rest();
  if (rest.length > 0) yield Buffer.from(rest);
  // A writer whose page broke off may have bytes left, and is not used again.
  if (idle.length < IDLE_MAX) idle.push(rows);
}

/** The same as `jsonPieces`, for blocks that arrive one by one. */
export interface JsonRows {
  pieces(scanned: ScannedBlock): Generator<Buffer, void>;
  /** Returns the bytes that were held back for the next block. */
  rest(): Buffer;
}

/** Returns the buffer to write to next, while the piece in `filled` is sent. */
export type NextBuffer = (filled: Buffer) => Buffer;

function newBuffer(): Buffer {
  return Buffer.allocUnsafeSlow(PIECE_BYTES);
}

function inTurn(): NextBuffer {
  let other = newBuffer();
  return (filled) => {
    const next = other;
    other = filled;
    return next;
  };
}

export function jsonRows(ending: string, nextBuffer: NextBuffer = inTurn()): JsonRows {
  const endOfRow = Buffer.from(`${END_OF_EVENT}${ending}`);
  let bytes = newBuffer();
  let length = 0;

  function take(): Buffer {
    const piece = bytes.subarray(0, length);
    if (length > 0) bytes = nextBuffer(bytes);
    length = 0;
    return piece;
  }

  return {
    *pieces(scanned) {
      const write = rowsWriter(scanned, endOfRow);
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
    rest: take,
  };
}

/** Returns all rows, one after the other, and the offset of the end of each. */
export function rowsAsJson(scanned: ScannedBlock): { bytes: Buffer; ends: Uint32Array } {
  const { rowCount } = scanned.block;
  const write = rowsWriter(scanned, Buffer.from(END_OF_EVENT));
  const ends = new Uint32Array(rowCount);
  let bytes = Buffer.allocUnsafe((rowCount + 1) * ROW_BYTES);
  for (let length = 0; ; ) {
    const { isDone, offset } = write(bytes, length, ends);
    if (isDone) return { bytes: bytes.subarray(0, offset), ends };
    const larger = Buffer.allocUnsafe(bytes.length * 2);
    bytes.copy(larger, 0, 0, offset);
    bytes = larger;
    length = offset;
  }
}
