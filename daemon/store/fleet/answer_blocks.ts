/**
 * Turns decoded answers of the table `event` into blocks as those of a recording. An event that was sent several times
 * may be several rows, which are neighbours in the total order: it is returned once.
 */
import type { DecodedBlock } from '../../../agent/clickhouse/native/decode.ts';
import { wordsOf } from '../../../agent/recording/words64.ts';
import { arrayOf, type ColumnArray, type NumberedBlock, newBlock, newColumnArray } from '../../../bpf/schema/block.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { RECORDING_COLUMN, type ScannedBlock } from '../blocks/scanned_block.ts';
import { type AnswerColumn, answerColumns, selectedColumns } from './answer_columns.ts';
import { contextReader, originContextReader, originPlaces } from './answer_contexts.ts';
import { type AnswerDictionary, answerDictionary } from './answer_dictionary.ts';
import { numbersOf, textListsOf, textNumbers, textsOf, valuesOf, wideListsOf } from './answer_rows.ts';

const BLOCK_ROWS_MAX = 4096;
/** Entries after which an answer gets a new dictionary: memory must not grow with the answer. */
const ENTRIES_MAX = 65_536;
/** A word that stands for no value of this kreplay. */
const UNKNOWN_LABEL = 0xffff;

/** The place of a row in the total order. */
export interface RowKey {
  timestampNs: bigint;
  recording: bigint;
  number: bigint;
}

export interface AnswerBlocks {
  /** Names of the columns to select. */
  readonly selected: readonly string[];
  /** The last row of the decoded blocks so far. */
  readonly last: RowKey | undefined;
  /** Yields the rows in blocks, at most `rowsMax` in all. Without rows there is no block. */
  read(decoded: DecodedBlock, rowsMax: number): Generator<ScannedBlock, void>;
  /** A block without rows. */
  empty(): ScannedBlock;
}

const TYPE_IDS = new Map<string, number>(EVENTS.map(({ name, id }) => [name, id]));

/** `wanted` are names of columns of a recording; all if omitted. */
export function answerBlocks(wanted?: readonly string[]): AnswerBlocks {
  const columns = answerColumns(wanted);
  let dictionary = answerDictionary();
  let last: RowKey | undefined;

  return {
    selected: selectedColumns(columns),
    get last() {
      return last;
    },
    *read(decoded, rowsMax) {
      const types = typesOf(decoded);
      const rows = differentRows(decoded, types, last).subarray(0, rowsMax);
      if (decoded.rowCount > 0) last = keyAt(decoded, decoded.rowCount - 1);
      for (let from = 0; from < rows.length; from += BLOCK_ROWS_MAX) {
        if (dictionary.size > ENTRIES_MAX) dictionary = answerDictionary();
        const to = Math.min(from + BLOCK_ROWS_MAX, rows.length);
        const block = blockOf({ decoded, types, rows: rows.subarray(from, to), dictionary }, columns);
        yield { block, dictionary, nextAtHand: to < rows.length };
      }
    },
    empty() {
      const block = newBlock(
        0,
        columns.map(({ column }) => column),
      );
      block.columns.set(RECORDING_COLUMN, new Uint32Array(0));
      return { block: { ...block, numbers: new BigUint64Array(0) }, dictionary };
    },
  };
}

function typesOf(decoded: DecodedBlock): Uint8Array {
  const types = new Uint8Array(decoded.rowCount);
  const typeAt = textNumbers(textsOf(decoded, 'event_type'), (name) => TYPE_IDS.get(name) ?? 0);
  for (let row = 0; row < types.length; row++) types[row] = typeAt(row);
  return types;
}

function keyAt(decoded: DecodedBlock, row: number): RowKey {
  const at = (name: string) => numbersOf(decoded, name, BigUint64Array)[row]!;
  return { timestampNs: at('timestamp_ns'), recording: at('recording'), number: at('number') };
}

/** Rows whose keys differ from those before them. Events of types that a newer kreplay records are left out. */
function differentRows(decoded: DecodedBlock, types: Uint8Array, before: RowKey | undefined): Uint32Array {
  const rows = new Uint32Array(decoded.rowCount);
  const keys = ['number', 'recording', 'timestamp_ns'].map((name) => wordsOf(numbersOf(decoded, name, BigUint64Array)));
  const isSame = (row: number) =>
    keys.every((words) => words[row * 2] === words[row * 2 - 2] && words[row * 2 + 1] === words[row * 2 - 1]);
  let count = 0;
  for (let row = 0; row < decoded.rowCount; row++) {
    if (types[row] === 0 || (row > 0 ? isSame(row) : before && isKey(before, keyAt(decoded, 0)))) continue;
    rows[count++] = row;
  }
  return rows.subarray(0, count);
}

function isKey(a: RowKey, b: RowKey): boolean {
  return a.number === b.number && a.recording === b.recording && a.timestampNs === b.timestampNs;
}

/** Rows of a decoded answer that become a block. */
interface Piece {
  decoded: DecodedBlock;
  /** Ids of the types of all rows of the answer. */
  types: Uint8Array;
  rows: Uint32Array;
  dictionary: AnswerDictionary;
}

function blockOf(piece: Piece, columns: readonly AnswerColumn[]): NumberedBlock {
  const { decoded, types, rows, dictionary } = piece;
  const block = newBlock(0, []);
  for (let i = 0; i < rows.length; i++) block.typeCounts[types[rows[i]!]!]!++;
  const rowsOf = [rows, ...rowsByType(block.typeCounts, types, rows)];
  for (const one of columns) block.columns.set(one.column.name, columnOf(piece, one, rowsOf[one.column.eventType]!));
  const recordings = numbersOf(decoded, 'recording', BigUint64Array);
  const nodes = textsOf(decoded, 'node');
  const nodeNames: string[] = [];
  const nodeAt = textNumbers(nodes, (name) => nodeNames.push(name) - 1);
  const words = wordsOf(recordings);
  let [low, high, index] = [0, 0, -1];
  const indexes = Uint32Array.from(rows, (row) => {
    if (index < 0 || words[row * 2] !== low || words[row * 2 + 1] !== high) {
      [low, high] = [words[row * 2]!, words[row * 2 + 1]!];
      index = dictionary.recordingIndex(recordings[row]!, nodeNames[nodeAt(row)]!);
    }
    return index;
  });
  block.columns.set(RECORDING_COLUMN, indexes);
  const numbers = valuesOf(numbersOf(decoded, 'number', BigUint64Array), rows);
  return { ...block, rowCount: rows.length, numbers };
}

/** Rows of each type, the first of which has id 1. */
function rowsByType(counts: Uint32Array, types: Uint8Array, rows: Uint32Array): Uint32Array[] {
  const found = Array.from(counts, (count) => new Uint32Array(count));
  const next = new Uint32Array(counts.length);
  for (let i = 0; i < rows.length; i++) {
    const type = types[rows[i]!]!;
    found[type]![next[type]!++] = rows[i]!;
  }
  return found.slice(1);
}

function columnOf(piece: Piece, one: AnswerColumn, rows: Uint32Array): ColumnArray {
  const { decoded, types } = piece;
  const [first] = one.from;
  if (one.as === 'number') return valuesOf(numbersOf(decoded, first!, arrayOf(one.column.storage)), rows);
  if (one.as === 'event_type') return valuesOf(types, rows);
  const made = newColumnArray(one.column.storage, rows.length);
  if (rows.length === 0) return made;
  if (one.as === 'origin' && one.part === 'bytes') return originBytes(decoded, first!, one.slot, rows, made);
  const numberAt = numberReader(piece, one);
  for (let i = 0; i < rows.length; i++) made[i] = numberAt(rows[i]!);
  return made;
}

function numberReader({ decoded, dictionary }: Piece, one: AnswerColumn): (row: number) => number {
  const [first, second] = one.from;
  switch (one.as) {
    case 'label':
      return textNumbers(textsOf(decoded, first!), (word) => one.numbers.get(word) ?? UNKNOWN_LABEL);
    case 'context':
      return contextReader(decoded, one.from, dictionary);
    case 'file':
      return fileReader(decoded, first!, second!, dictionary);
    case 'origin':
      if (one.part === 'context') return originContextReader(decoded, one.from, one.slot, dictionary);
      return originServices(decoded, first!, one.slot, dictionary);
    default:
      return textNumbers(textsOf(decoded, first!), dictionary.nameId);
  }
}

function fileReader(decoded: DecodedBlock, path: string, kind: string, dictionary: AnswerDictionary) {
  const kinds: string[] = [];
  const kindAt = textNumbers(textsOf(decoded, kind), (text) => kinds.push(text) - 1);
  let ofKind = '';
  const fileAt = textNumbers(textsOf(decoded, path), (text) => dictionary.fileId(text, ofKind));
  return (row: number) => {
    ofKind = kinds[kindAt(row)]!;
    return ofKind === '' ? 0 : fileAt(row);
  };
}

function originServices(decoded: DecodedBlock, name: string, slot: number, dictionary: AnswerDictionary) {
  const { ends, items } = textListsOf(decoded, name);
  const at = originPlaces(ends, slot);
  const nameAt = textNumbers(items, dictionary.nameId);
  return (row: number) => {
    const place = at(row);
    return place < 0 ? 0 : nameAt(place);
  };
}

function originBytes(decoded: DecodedBlock, name: string, slot: number, rows: Uint32Array, made: ColumnArray) {
  const { ends, items: values } = wideListsOf(decoded, name);
  const at = originPlaces(ends, slot);
  const bytes = made as BigUint64Array;
  for (let i = 0; i < rows.length; i++) {
    const place = at(rows[i]!);
    if (place >= 0) bytes[i] = values[place]!;
  }
  return bytes;
}
