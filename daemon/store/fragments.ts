/** Pieces of JSON that many events have in common, made once and kept by what they are made of. */
import { stringify } from '../exact_json.ts';

/** The fields of an object, for the middle of another one. */
export function fieldsOf(values: object): string {
  const inner = stringify(values).slice(1, -1);
  return inner === '' ? '' : `,${inner}`;
}

/** Powers of two. What falls on the same slot takes it over; when that happens often, there are more. */
const SLOT_BITS_MIN = 5;
const SLOT_BITS_MAX = 12;
const KEYS = 4;

/** Up to four numbers, each an unsigned 32-bit integer, to the bytes of a piece. */
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

/** Filled: an array with holes is a slow one. */
function emptySlots(bits: number): (Uint8Array | undefined)[] {
  return new Array(1 << bits).fill(undefined);
}

/** The upper bits of products with odd constants: neighbouring numbers are far apart there. */
function slotOf(a: number, b: number, c: number, d: number, bits: number): number {
  const sum = Math.imul(a, 0x9e3779b1) + Math.imul(b, 0x85ebca6b) + Math.imul(c, 0xc2b2ae35) + Math.imul(d, 0x27d4eb2f);
  return (sum >>> 0) >>> (32 - bits);
}
