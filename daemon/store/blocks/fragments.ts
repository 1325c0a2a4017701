/** Pieces of JSON that many events share, made once and cached by the numbers that they are made of. */
import { stringify } from '../../exact_json.ts';

/** Returns the fields of an object as text to insert into another object. */
export function fieldsOf(values: object): string {
  const inner = stringify(values).slice(1, -1);
  return inner === '' ? '' : `,${inner}`;
}

/**
 * The number of slots is a power of two. A colliding key evicts the previous one; frequent evictions double the slots.
 */
const SLOT_BITS_MIN = 5;
const SLOT_BITS_MAX = 12;
const KEYS = 4;

/** Maps up to four unsigned 32-bit integers to the bytes of a piece. */
export type Fragments = (a: number, b?: number, c?: number, d?: number) => Uint8Array;

export function createFragments(make: (a: number, b: number, c: number, d: number) => string): Fragments {
  let bits = SLOT_BITS_MIN;
  let keys = new Uint32Array(KEYS << bits);
  let made = emptySlots(bits);
  let evicted = 0;

  function evict(): void {
    if (bits === SLOT_BITS_MAX || ++evicted < 1 << bits) return;
    evicted = 0;
    bits++;
    keys = new Uint32Array(KEYS << bits);
    made = emptySlots(bits);
  }

  return (a, b = 0, c = 0, d = 0) => {
    let slot = slotOf(a, b, c, d, bits);
    let at = slot * KEYS;
    const known = made[slot];
    if (known) {
      if (keys[at] === a && keys[at + 1] === b && keys[at + 2] === c && keys[at + 3] === d) return known;
      evict();
      slot = slotOf(a, b, c, d, bits);
      at = slot * KEYS;
    }
    const bytes = Buffer.from(make(a, b, c, d));
    made[slot] = bytes;
    keys[at] = a;
    keys[at + 1] = b;
    keys[at + 2] = c;
    keys[at + 3] = d;
    return bytes;
  };
}

/** The array is filled because arrays with holes are slow. */
function emptySlots(bits: number): (Uint8Array | undefined)[] {
  return new Array(1 << bits).fill(undefined);
}

/** Takes the upper bits of products with odd constants, which spread adjacent numbers far apart. */
function slotOf(a: number, b: number, c: number, d: number, bits: number): number {
  const sum = Math.imul(a, 0x9e3779b1) + Math.imul(b, 0x85ebca6b) + Math.imul(c, 0xc2b2ae35) + Math.imul(d, 0x27d4eb2f);
  return (sum >>> 0) >>> (32 - bits);
}
