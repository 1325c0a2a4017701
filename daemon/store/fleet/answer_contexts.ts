/** Contexts of an answer's rows: what the table has in columns of texts and ids becomes numbers of its dictionary. */
import type { DecodedBlock } from '../../../agent/clickhouse/native/decode.ts';
import { type Texts, textAt } from '../../../agent/clickhouse/native/texts.ts';
import type { AnswerDictionary } from './answer_dictionary.ts';
import { bytesOf, idListsOf, textListsOf, textsOf, unexpected } from './answer_rows.ts';

const TRACE_BYTES = 16;
const SPAN_BYTES = 8;
const NO_SPAN = Buffer.alloc(SPAN_BYTES);

/** Returns a function that gives the context of a row, from columns that may be without spans. */
export function contextReader(
  decoded: DecodedBlock,
  [transaction, trace, span]: readonly string[],
  dictionary: AnswerDictionary,
): (row: number) => number {
  const transactions = textsOf(decoded, transaction!);
  const traces = bytesOf(decoded, trace!, TRACE_BYTES);
  const spans = span === undefined ? undefined : bytesOf(decoded, span, SPAN_BYTES);
  return ownerReader(
    transactions,
    traces,
    (row) => spans?.subarray(row * SPAN_BYTES, (row + 1) * SPAN_BYTES) ?? NO_SPAN,
    dictionary,
  );
}

/** Returns a function that gives the context of an origin. */
export function originContextReader(
  decoded: DecodedBlock,
  [transaction, trace]: readonly string[],
  slot: number,
  dictionary: AnswerDictionary,
): (row: number) => number {
  const { ends, items } = textListsOf(decoded, transaction!);
  const traces = idListsOf(decoded, trace!, TRACE_BYTES);
  // The items of both are at the same places.
  if (ends.at(-1) !== traces.ends.at(-1)) throw unexpected('transactions and traces are not as many');
  const at = originPlaces(ends, slot);
  const contextAt = ownerReader(items, traces.items, () => NO_SPAN, dictionary);
  return (row) => {
    const place = at(row);
    return place < 0 ? 0 : contextAt(place);
  };
}

/** Where the items of a slot are in a column of lists: -1 for rows whose list is shorter. */
export function originPlaces(ends: Uint32Array, slot: number): (row: number) => number {
  return (row) => {
    const place = (row === 0 ? 0 : ends[row - 1]!) + slot;
    return place < ends[row]! ? place : -1;
  };
}

function ownerReader(
  transactions: Texts,
  traces: Buffer,
  spanOf: (row: number) => Buffer,
  dictionary: AnswerDictionary,
): (row: number) => number {
  const { table, ids } = transactions;
  if (ids) throw unexpected('transactions have numbers');
  /** Most events have the context of the event before. */
  let [lastKey, lastId] = ['', 0];
  return (row) => {
    const trace = traces.subarray(row * TRACE_BYTES, (row + 1) * TRACE_BYTES);
    const span = spanOf(row);
    const transaction = table.bytes.toString('latin1', table.starts[row]!, table.ends[row]!);
    const key = `${trace.toString('latin1')}${span.toString('latin1')}${transaction}`;
    if (key === lastKey) return lastId;
    const isNone = transaction === '' && isZero(trace) && isZero(span);
    lastId = isNone ? 0 : dictionary.contextId(key, textAt(transactions, row), trace, span);
    lastKey = key;
    return lastId;
  };
}

function isZero(bytes: Buffer): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) return false;
  return true;
}
