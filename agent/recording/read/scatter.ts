/** Copies some values of a column to places in another one. */
import type { ColumnArray } from '../../../bpf/schema/block.ts';
import { wordsOf } from '../words64.ts';

/** Sets `target[to[i]]` to `source[from[i]]`. */
export function scatter(source: ColumnArray, from: Uint32Array, target: ColumnArray, to: Uint32Array): void {
  if (isWide(source) && isWide(target)) scatterPairs(wordsOf(source), from, wordsOf(target), to);
  else scatterValues(source as Uint32Array, from, target as Uint32Array, to);
}

function isWide(values: ColumnArray): values is BigUint64Array | BigInt64Array {
  return values.BYTES_PER_ELEMENT === 8;
}

function scatterValues(source: Uint32Array, from: Uint32Array, target: Uint32Array, to: Uint32Array): void {
  for (let i = 0; i < from.length; i++) target[to[i]!] = source[from[i]!]!;
}

function scatterPairs(source: Uint32Array, from: Uint32Array, target: Uint32Array, to: Uint32Array): void {
  for (let i = 0; i < from.length; i++) {
    const low = from[i]! * 2;
    const place = to[i]! * 2;
    target[place] = source[low]!;
    target[place + 1] = source[low + 1]!;
  }
}
