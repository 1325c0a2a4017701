/**
 * Writes rows of a block as JSON without creating events: the same bytes as `stringify` gives for the event, several
 * times as fast. Text that rows share is encoded once, and 64-bit integers are read as 32-bit words.
 */

import { wordsOf } from '../../../agent/recording/words64.ts';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { typeRows } from '../../../bpf/schema/block.ts';
import { eventById } from '../../../bpf/schema/index.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { stringify } from '../../exact_json.ts';
import { type ByteText, CHUNK_BYTES, createByteText } from './byte_text.ts';
import { bigColumn, column } from './column.ts';
import { errorName } from './errno.ts';
import { createFragments, type Fragments, fieldsOf } from './fragments.ts';
import { type Dictionary, RECORDING_COLUMN, type ScannedBlock } from './scanned_block.ts';
import { type TypeFieldsJson, typeFieldsJson } from './type_fields_json.ts';

/** Writes one row. */
export type RowWriter = (row: number) => void;

/** Encoded pieces for one dictionary, by its ids. */
interface Pieces {
  ids: Fragments;
  heads: Fragments;
  owners: Fragments;
  threads: Fragments;
  errors: Fragments;
  own: readonly (TypeFieldsJson | undefined)[];
}

/**
 * Returns a function that gives, for a block of any recording, a writer of its rows to `text`, each followed by
 * `ending`.
 */
export function eventJson(text: ByteText, ending = ''): (scanned: ScannedBlock) => RowWriter {
  const end = Buffer.from(`}${ending}`);
  const known = new WeakMap<Dictionary, Pieces>();
  return ({ block, dictionary }) => {
    let pieces = known.get(dictionary);
    if (!pieces) {
      pieces = piecesOf(dictionary, text);
      known.set(dictionary, pieces);
    }
    return rowWriter(block, pieces, text, end);
  };
}

function piecesOf(dictionary: Dictionary, text: ByteText): Pieces {
  return {
    ids: createFragments((recording) => `{"event_id":"${dictionary.recording(recording).recordingId}-`),
    heads: createFragments((type) => `","event_type":${stringify(eventById(type)!.name)},"timestamp_ns":`),
    owners: createFragments((context, service, attribution, recording) => {
      const { transactionId, traceId, spanId } = dictionary.context(context);
      return fieldsOf({
        service_name: dictionary.name(service),
        transaction_id: transactionId,
        trace_id: traceId,
        span_id: spanId,
        attribution: {
          source: ATTRIBUTION_SOURCES[attribution >>> 8],
          quality: ATTRIBUTION_QUALITIES[attribution & 0xff],
        },
        node: dictionary.recording(recording).node,
      });
    }),
    threads: createFragments(
      (tid, pid, comm, cpu) => `${fieldsOf({ pid, tid, comm: dictionary.name(comm), cpu })},"result":`,
    ),
    errors: createFragments((low, high) => {
      return fieldsOf({ error: errorName(BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low))) });
    }),
    own: Array.from({ length: 256 }, (_, type) => {
      const event = eventById(type);
      return event && typeFieldsJson(event, dictionary, text);
    }),
  };
}

/**
 * Yields all rows, each followed by `ending`, in pieces of about 64 KiB; a piece reuses the memory of the last but one.
 * A block without rows yields an empty piece: a pause.
 */
export async function* jsonPieces(blocks: AsyncIterable<ScannedBlock>, ending: string): AsyncGenerator<Buffer, void> {
  const rows = jsonRows(ending);
  for await (const scanned of blocks) yield* rows.pieces(scanned);
  const rest = rows.rest();
  if (rest.length > 0) yield rest;
}

/** Number of writers that are kept for later pages. */
const IDLE_MAX = 4;

/** Writers that no page uses: making one, with its buffers and texts, takes longer than writing a short page. */
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

export function jsonRows(ending: string): JsonRows {
  const text = createByteText();
  const writerFor = eventJson(text, ending);
  return {
    *pieces(scanned) {
      const { rowCount } = scanned.block;
      const write = writerFor(scanned);
      for (let row = 0; row < rowCount; row++) {
        write(row);
        if (text.length >= CHUNK_BYTES) yield text.take();
      }
      // Reading the next block takes time, so the rows written so far are sent now.
      if (!scanned.nextAtHand) yield text.take();
    },
    rest: text.take,
  };
}

const DURATION = Buffer.from(',"duration_ns":');
const SUCCESS = Buffer.from(',"error":null');

function rowWriter(
  block: NumberedBlock,
  { ids, heads, owners, threads, errors, own }: Pieces,
  text: ByteText,
  end: Uint8Array,
): RowWriter {
  const type = column(block, 'event_type');
  const timestamp = wordsOf(bigColumn(block, 'timestamp_ns'));
  const duration = wordsOf(bigColumn(block, 'duration_ns'));
  const result = wordsOf(bigColumn(block, 'result'));
  const numbers = wordsOf(block.numbers);
  const service = column(block, 'service');
  const context = column(block, 'context');
  const source = column(block, 'context_source');
  const quality = column(block, 'context_quality');
  const pid = column(block, 'pid');
  const tid = column(block, 'tid');
  const comm = column(block, 'comm');
  const cpu = column(block, 'cpu');
  const recordings = block.columns.get(RECORDING_COLUMN);
  const ownId = ids(0);
  const ownRows = typeRows(block);
  const ownWriters = Array.from(block.typeCounts, (count, id) => (count > 0 ? own[id]!(block) : undefined));
  const { add, unsigned, signed, time, hex } = text;

  return (row) => {
    const [low, high] = [row * 2, row * 2 + 1];
    const recording = recordings ? (recordings[row] as number) : 0;
    add(recordings ? ids(recording) : ownId);
    hex(numbers[low]!, numbers[high]!);
    add(heads(type[row]!));
    time(timestamp[low]!, timestamp[high]!);
    add(DURATION);
    unsigned(duration[low]!, duration[high]!);
    add(owners(context[row]!, service[row]!, (source[row]! << 8) | quality[row]!, recording));
    add(threads(tid[row]!, pid[row]!, comm[row]!, cpu[row]!));
    signed(result[low]!, result[high]!);
    add(result[high]! >>> 31 === 0 ? SUCCESS : errors(result[low]!, result[high]!));
    ownWriters[type[row]!]!(ownRows[row]!);
    add(end);
  };
}
