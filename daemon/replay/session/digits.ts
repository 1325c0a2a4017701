/** Writes decimal digits directly into a buffer: a string per number would be work for the garbage collector. */

const GROUP = 1_000_000_000;
const GROUP_DIGITS = 9;
const ZERO = 0x30;
/** The most digits that an unsigned 64-bit number has. */
export const DIGITS_MAX = 20;

/** Writes an integer from 0 to 2^53 - 1 and returns the offset of its end. */
export function writeDigits(to: Buffer, at: number, value: number): number {
  if (value < GROUP) return writeGroup(to, at, value, digitsOf(value));
  const low = value % GROUP;
  return writeGroup(to, writeDigits(to, at, (value - low) / GROUP), low, GROUP_DIGITS);
}

/** Writes an integer from 0 to 2^64 - 1 and returns the offset of its end. */
export function writeBigDigits(to: Buffer, at: number, value: bigint): number {
  const high = Number(value / BIG_GROUP);
  const low = Number(value % BIG_GROUP);
  return high === 0 ? writeDigits(to, at, low) : writeGroup(to, writeDigits(to, at, high), low, GROUP_DIGITS);
}

const BIG_GROUP = BigInt(GROUP);

function digitsOf(value: number): number {
  let digits = 1;
  for (let power = 10; power <= value; power *= 10) digits++;
  return digits;
}

/** Writes a value below 10^9, padded with leading zeros. */
function writeGroup(to: Buffer, at: number, value: number, digits: number): number {
  let rest = value | 0;
  for (let place = at + digits - 1; place >= at; place--) {
    const shorter = (rest / 10) | 0;
    to[place] = ZERO + rest - shorter * 10;
    rest = shorter;
  }
  return at + digits;
}
