/** Makes object files that no compiler makes: real ones with some bytes changed, mostly where it matters most. */
import fc from 'fast-check';

interface Region {
  from: number;
  size: number;
}

const SECTION_HEADER_BYTES = 64;

/** Regions of a 64-bit little-endian ELF file: its header, the section header table, and each section. */
export function regionsOf(file: Uint8Array): Region[] {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const table = Number(view.getBigUint64(40, true));
  const count = view.getUint16(60, true);
  const sections = Array.from({ length: count }, (_, i) => {
    const at = table + i * SECTION_HEADER_BYTES;
    return { from: Number(view.getBigUint64(at + 24, true)), size: Number(view.getBigUint64(at + 32, true)) };
  });
  const inFile = sections.filter(({ from, size }) => size > 0 && from + size <= file.length);
  return [{ from: 0, size: 64 }, { from: table, size: count * SECTION_HEADER_BYTES }, ...inFile];
}

/** Values at which lengths, offsets and ids are likely to become invalid. */
const WORDS = [0, 1, 2, 3, 4, 8, 0x7f, 0xff, 0x100, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff];

// fast-check's bias prefers small numbers, which would all hit the file's header.
const share = fc.noBias(fc.nat(2 ** 31 - 1)).map((part) => part / 2 ** 31);
const change = fc.record({
  region: fc.noBias(fc.nat(0xffff)),
  at: share,
  kind: fc.constantFrom('word', 'word', 'any_word', 'byte', 'bit', 'copy', 'zeros'),
  word: fc.constantFrom(...WORDS),
  any: fc.nat(0xffffffff),
  from: share,
});
const mutation = fc.record({
  changes: fc.array(change, { minLength: 1, maxLength: 6 }),
  /** The file is cut off after this share of its length. */
  cut: fc.oneof({ weight: 29, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: share }),
});

export type Mutation = typeof mutation extends fc.Arbitrary<infer Value> ? Value : never;

/** The same seed gives the same mutation. */
export function mutationOf(seed: number): Mutation {
  return fc.sample(mutation, { seed, numRuns: 1 })[0]!;
}

export function mutated(file: Uint8Array, regions: readonly Region[], { changes, cut }: Mutation): Uint8Array {
  const copy = file.slice();
  for (const { region, at, kind, word, any, from } of changes) {
    const { from: start, size } = regions[region % regions.length]!;
    const offset = start + Math.floor(at * size);
    const aligned = Math.min(offset & ~3, copy.length - 4);
    const view = new DataView(copy.buffer);
    if (kind === 'word') view.setUint32(aligned, word, true);
    else if (kind === 'any_word') view.setUint32(aligned, any, true);
    else if (kind === 'byte') copy[offset] = any;
    else if (kind === 'bit') copy[offset]! ^= 1 << (any & 7);
    else if (kind === 'zeros') copy.fill(0, offset, offset + 1 + (any & 63));
    else copy.copyWithin(offset, start + Math.floor(from * size), start + Math.floor(from * size) + 1 + (any & 63));
  }
  return cut === null ? copy : copy.subarray(0, Math.floor(cut * copy.length));
}
