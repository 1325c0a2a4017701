/** The transactions that are compared: which of them are in the box, and how to find a transaction by its id. */

import { hashText53 } from '../../../agent/recording/format/text_hash.ts';
import { growArray } from '../../base/growing_array.ts';
import type { Dictionary } from '../../store/blocks/scanned_block.ts';
import { type Box, createBoxTest, type TimedRows } from '../box.ts';

/** Transactions, in arrays that may be longer than `count`. Hashes of ids are the same in every recording. */
export interface PopulationRows {
  count: number;
  hashes: Float64Array;
  startsNs: BigUint64Array;
  durationsNs: BigUint64Array;
  /** 1 for each transaction in the box; 0 for each other transaction. */
  selected: Uint8Array;
}

interface Added extends TimedRows {
  hashes: Float64Array;
}

/** Gathers transactions by copying their arrays, because the caller reuses the arrays for the next transactions. */
export function gatherPopulation(box: Box) {
  let rows = createPopulationRows(1024);

  function reserve(count: number): void {
    if (count <= rows.hashes.length) return;
    rows = {
      count: rows.count,
      hashes: growArray(rows.hashes, count),
      startsNs: growArray(rows.startsNs, count),
      durationsNs: growArray(rows.durationsNs, count),
      selected: growArray(rows.selected, count),
    };
  }

  return {
    add(added: Added): void {
      const { length, hashes, startsNs, durationsNs } = added;
      reserve(rows.count + length);
      const isSelected = createBoxTest(box, added);
      rows.hashes.set(hashes.subarray(0, length), rows.count);
      rows.startsNs.set(startsNs.subarray(0, length) as BigUint64Array, rows.count);
      rows.durationsNs.set(durationsNs.subarray(0, length) as BigUint64Array, rows.count);
      for (let row = 0; row < length; row++) rows.selected[rows.count + row] = isSelected(row) ? 1 : 0;
      rows.count += length;
    },
    finish: (): PopulationRows => rows,
  };
}

function createPopulationRows(length: number): PopulationRows {
  return {
    count: 0,
    hashes: new Float64Array(length),
    startsNs: new BigUint64Array(length),
    durationsNs: new BigUint64Array(length),
    selected: new Uint8Array(length),
  };
}

/**
 * Reading begins this long before the first transaction: a request that began before a transaction may delay the
 * transaction or carry its data, because a transaction begins with its first own event. Even earlier requests hardly
 * ever delay it.
 */
const BEFORE_NS = 1_000_000_000n;

/** Returns the time range that contains all events for which callers of the transactions waited. */
export function computeWaitedRange({ count, startsNs, durationsNs }: PopulationRows): { fromNs: bigint; toNs: bigint } {
  let [fromNs, toNs] = count === 0 ? [0n, 0n] : [startsNs[0]!, 0n];
  for (let row = 0; row < count; row++) {
    const start = startsNs[row]!;
    const end = start + durationsNs[row]! + 1n;
    if (start < fromNs) fromNs = start;
    if (end > toNs) toNs = end;
  }
  return { fromNs: fromNs > BEFORE_NS ? fromNs - BEFORE_NS : 0n, toNs };
}

export const NOT_COMPARED = -1;
const UNKNOWN = -2;
const PAGE_BITS = 12;

/**
 * Returns a function that takes a dictionary and returns a function that finds the transaction of a context, or
 * NOT_COMPARED.
 */
export function createContextFinder({
  count,
  hashes,
}: PopulationRows): (dictionary: Dictionary) => (context: number) => number {
  const findPlace = createHashIndex(hashes, count);
  /**
   * Indexes of transactions by context id. They are stored in pages, because ids are dense but may begin far above 0.
   */
  const known = new WeakMap<Dictionary, Int32Array[]>();

  function findPlaceOfContext(dictionary: Dictionary, context: number): number {
    const { transactionId } = dictionary.context(context);
    return transactionId === null ? NOT_COMPARED : findPlace(hashText53(transactionId));
  }

  return (dictionary) => {
    const pages = known.get(dictionary) ?? [];
    known.set(dictionary, pages);
    return (context) => {
      if (context === 0) return NOT_COMPARED;
      pages[context >>> PAGE_BITS] ??= new Int32Array(2 ** PAGE_BITS).fill(UNKNOWN);
      const page = pages[context >>> PAGE_BITS]!;
      const at = context & (2 ** PAGE_BITS - 1);
      if (page[at] === UNKNOWN) page[at] = findPlaceOfContext(dictionary, context);
      return page[at]!;
    };
  };
}

/** Builds a hash index with open addressing; at most half of the slots are occupied. */
function createHashIndex(hashes: Float64Array, count: number): (hash: number) => number {
  const size = 2 ** Math.ceil(Math.log2(Math.max(count, 1) * 2));
  const slots = new Int32Array(size).fill(NOT_COMPARED);
  const advanceSlot = (slot: number) => (slot + 1 === size ? 0 : slot + 1);
  for (let place = 0; place < count; place++) {
    let slot = hashes[place]! % size;
    while (slots[slot] !== NOT_COMPARED) slot = advanceSlot(slot);
    slots[slot] = place;
  }
  return (hash) => {
    let slot = hash % size;
    while (slots[slot] !== NOT_COMPARED && hashes[slots[slot]!] !== hash) slot = advanceSlot(slot);
    return slots[slot]!;
  };
}
