/** Writes rows of a block as text without creating events, in C++: see bpf/schema/native_text_rows.ts. */
import { type ColumnArray, type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import type { Storage } from '../../../bpf/schema/kinds.ts';
import {
  KEY_BYTES,
  type NativeLayout,
  type NativeTexts,
  nativeTextRows,
  STATE,
  WRITTEN,
} from '../../../bpf/schema/native_text_rows.ts';
import { NUMBER_COLUMN, type RowLayout } from './row_layout.ts';
import { type Dictionary, RECORDING_COLUMN, type ScannedBlock } from './scanned_block.ts';

/**
 * Size of the buffer for a piece. A piece that is full has more than the 64 KiB that Node queues for a socket, as no row
 * is longer than the rest: only then does a client that does not read count as one that is waited for.
 */
const PIECE_BYTES = 96 * 1024;

/**
 * Writes the rows that follow those of the call before to `output`, as many as fit there after `offset`; sets the end
 * of each row in `ends`.
 */
export type RowsWriter = (
  output: Uint8Array,
  offset: number,
  ends?: Uint32Array,
) => { isDone: boolean; offset: number };

/** Returns a function that starts writing the rows of a block, each followed by `ending`. */
export type RowFormat = (scanned: ScannedBlock, ending: Uint8Array) => RowsWriter;

/** `makeLayout` is called when the first block is written. */
export function rowFormat(makeLayout: () => RowLayout): RowFormat {
  /** Texts of every dictionary in use. */
  const textsOf = new WeakMap<Dictionary, NativeTexts>();
  let made: (RowLayout & { native: NativeLayout }) | undefined;

  function layout(): RowLayout & { native: NativeLayout } {
    if (made) return made;
    const given = makeLayout();
    const { columns, common, own } = given;
    const native = nativeTextRows.createRowLayout(columns.length, columns.indexOf('event_type'), common, own);
    made = { ...given, native };
    return made;
  }

  function textsFor(dictionary: Dictionary): NativeTexts {
    let texts = textsOf.get(dictionary);
    if (!texts) {
      texts = nativeTextRows.createRowTexts();
      textsOf.set(dictionary, texts);
    }
    return texts;
  }

  return ({ block, dictionary }, ending) => {
    const { native, tables, columns: names } = layout();
    const texts = textsFor(dictionary);
    const columns = names.map((name) => columnOf(block, name));
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
        nativeTextRows.addRowText(texts, table, key, Buffer.from(make(dictionary, keyValues(key, storages))));
      }
    };
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

export interface TextRows {
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

/**
 * Returns a writer of rows in pieces of at most 96 KiB, or of one longer row; a piece reuses the memory of the last but
 * one, or what `nextBuffer` returns. A block without rows yields an empty piece: a pause.
 */
export function textRows(format: RowFormat, ending: string, nextBuffer: NextBuffer = inTurn()): TextRows {
  const endOfRow = Buffer.from(ending);
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
    rest: take,
  };
}
