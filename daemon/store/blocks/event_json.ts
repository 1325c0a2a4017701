/** Writes rows of a block as JSON: the same bytes as `stringify` gives for the event. */
import { layoutOfEvents } from './event_layout.ts';
import type { ScannedBlock } from './scanned_block.ts';
import { type NextBuffer, rowFormat, type TextRows, textRows } from './text_rows.ts';

/** An event takes 400 to 500 bytes. */
const ROW_BYTES = 512;
const END_OF_EVENT = '}';

const format = rowFormat(layoutOfEvents);

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
const idle: TextRows[] = [];

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
export function jsonRows(ending: string, nextBuffer?: NextBuffer): TextRows {
  return textRows(format, `${END_OF_EVENT}${ending}`, nextBuffer);
}

/** Returns all rows, one after the other, and the offset of the end of each. */
export function rowsAsJson(scanned: ScannedBlock, memory?: Buffer): { bytes: Buffer; ends: Uint32Array } {
  const { rowCount } = scanned.block;
  const write = format(scanned, Buffer.from(END_OF_EVENT));
  const ends = new Uint32Array(rowCount);
  const likelyBytes = (rowCount + 1) * ROW_BYTES;
  let bytes = memory && memory.length >= likelyBytes ? memory : Buffer.allocUnsafe(likelyBytes);
  for (let length = 0; ; ) {
    const { isDone, offset } = write(bytes, length, ends);
    if (isDone) return { bytes: bytes.subarray(0, offset), ends };
    const larger = Buffer.allocUnsafe(bytes.length * 2);
    bytes.copy(larger, 0, 0, offset);
    bytes = larger;
    length = offset;
  }
}
