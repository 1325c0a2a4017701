/**
 * Looks up a symbol in the dynamic linker's hash tables: returns the index of the one that is `isNamed`, or undefined.
 */

/** Returns exactly `size` bytes at an address of the loaded file, or undefined. */
export type ReadAddress = (address: number, size: number) => DataView | undefined;

/** A chain of a valid table has only a few entries. */
const CHAIN_MAX = 1024;

/**
 *   buckets u32, first symbol u32, filter words u32, filter shift u32
 *   filter: two bits for each symbol in one of its 64-bit words
 *   bucket: index of the first symbol of its chain
 *   chain, from the first symbol on: the symbol's hash, its low bit replaced by whether it is the last one
 */
export function lookUpGnuHash(
  read: ReadAddress,
  table: number,
  name: string,
  isNamed: (index: number) => boolean,
): number | undefined {
  const head = read(table, 16);
  if (!head) return undefined;
  const [buckets, first, filterWords, shift] = [0, 4, 8, 12].map((at) => head.getUint32(at, true)) as QuadrupleOfU32;
  if (buckets === 0 || filterWords === 0) return undefined;
  const hash = gnuHash(name);
  const filter = read(table + 16 + ((hash >>> 6) % filterWords) * 8, 8);
  if (!filter || !hasBit(filter, hash) || !hasBit(filter, hash >>> shift)) return undefined;
  const bucketAt = table + 16 + filterWords * 8;
  const chainAt = bucketAt + buckets * 4;
  const start = read(bucketAt + (hash % buckets) * 4, 4)?.getUint32(0, true) ?? 0;
  if (start < first || start === 0) return undefined;
  for (let index = start; index < start + CHAIN_MAX; index++) {
    const link = read(chainAt + (index - first) * 4, 4)?.getUint32(0, true);
    if (link === undefined) return undefined;
    if ((link | 1) === (hash | 1) && isNamed(index)) return index;
    if (link & 1) return undefined;
  }
  return undefined;
}

type QuadrupleOfU32 = [number, number, number, number];

function hasBit(word: DataView, bit: number): boolean {
  return ((word.getUint32(bit & 32 ? 4 : 0, true) >>> (bit & 31)) & 1) === 1;
}

function gnuHash(name: string): number {
  let hash = 5381;
  for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 33) + name.charCodeAt(i)) >>> 0;
  return hash;
}

/**
 *   buckets u32, chain links u32
 *   bucket: index of its first symbol
 *   chain link of each symbol: index of the next one, or 0
 */
export function lookUpSysvHash(
  read: ReadAddress,
  table: number,
  name: string,
  isNamed: (index: number) => boolean,
): number | undefined {
  const buckets = read(table, 4)?.getUint32(0, true);
  if (!buckets) return undefined;
  let linkAt = table + 8 + (sysvHash(name) % buckets) * 4;
  for (let i = 0; i < CHAIN_MAX; i++) {
    const index = read(linkAt, 4)?.getUint32(0, true);
    if (!index) return undefined;
    if (isNamed(index)) return index;
    linkAt = table + 8 + buckets * 4 + index * 4;
  }
  return undefined;
}

function sysvHash(name: string): number {
  let hash = 0;
  for (let i = 0; i < name.length; i++) {
    hash = (hash << 4) + name.charCodeAt(i);
    const high = hash & 0xf0000000;
    hash = (hash ^ (high >>> 24)) & 0x0fffffff;
  }
  return hash;
}
