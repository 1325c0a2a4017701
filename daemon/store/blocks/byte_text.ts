/**
 * Builds text as bytes, piece by piece. Building strings takes three times as long: they are concatenated from small
 * ones, flattened and encoded.
 */

/** Approximate size of the chunks that a reader gets. */
export const CHUNK_BYTES = 64 * 1024;
/** Most pieces of text are shorter than this; the buffer grows for a longer one. */
const SPARE_BYTES = 16 * 1024;

const LOOP_BYTES_MAX = 12;
const NUMBER_BYTES_MAX = 20;
const HEX_BYTES = 16;
const ZERO = 0x30;
const MINUS = 0x2d;
const HEX_DIGITS = Buffer.from('0123456789abcdef');
const WORD = 2 ** 32;
const SIGN = 2 ** 31;
/** High words of integers that a double holds exactly are below this. */
const SAFE_HIGH_MAX = 2 ** 21;
const BILLION = 1e9;
const BILLION_DIGITS = 9;

export interface ByteText {
  readonly length: number;
  /** Adds text that is encoded already. */
  add(bytes: Uint8Array): void;
  /** An integer from 0 to 2^53. */
  natural(value: number): void;
  unsigned(low: number, high: number): void;
  signed(low: number, high: number): void;
  /** Nanoseconds since the epoch. Optimized for consecutive timestamps, most of which fall into the same second. */
  time(low: number, high: number): void;
  /** Writes 16 digits. */
  hex(low: number, high: number): void;
  /**
   * Returns all bytes. Their memory is reused after the next `take`: one piece is sent while the next one is written.
   */
  take(): Buffer;
}

export function createByteText(): ByteText {
  let bytes = Buffer.allocUnsafeSlow(CHUNK_BYTES + SPARE_BYTES);
  /** The buffer that the last `take` returned. */
  let taken = Buffer.allocUnsafeSlow(CHUNK_BYTES + SPARE_BYTES);
  let length = 0;
  /** The second of the last timestamp: its start in nanoseconds as two 32-bit words, and its digits. */
  let secondLow = 0;
  let secondHigh = 0;
  let secondText: Uint8Array = new Uint8Array();

  function ensure(more: number): void {
    if (length + more <= bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(bytes.length * 2, length + more));
    bytes.copy(larger, 0, 0, length);
    bytes = larger;
  }

  function add(piece: Uint8Array): void {
    const count = piece.length;
    ensure(count);
    // A call of `set` costs as much as a loop over this many bytes.
    if (count > LOOP_BYTES_MAX) bytes.set(piece, length);
    else for (let i = 0; i < count; i++) bytes[length + i] = piece[i]!;
    length += count;
  }

  /** Writes `value`, which is below 2^31, with leading zeros. */
  function padded(value: number, digits: number): void {
    let rest = value;
    for (let at = length + digits - 1; at >= length; at--) {
      const next = (rest / 10) | 0;
      bytes[at] = ZERO + rest - next * 10;
      rest = next;
    }
    length += digits;
  }

  function small(value: number): void {
    let digits = 1;
    for (let limit = 10; limit <= value; limit *= 10) digits++;
    padded(value, digits);
  }

  function natural(value: number): void {
    ensure(NUMBER_BYTES_MAX);
    if (value < BILLION) {
      small(value);
      return;
    }
    const billions = Math.floor(value / BILLION);
    small(billions);
    padded(value - billions * BILLION, BILLION_DIGITS);
  }

  function unsigned(low: number, high: number): void {
    if (high < SAFE_HIGH_MAX) natural(high * WORD + low);
    else add(Buffer.from(((BigInt(high) << 32n) | BigInt(low)).toString()));
  }

  function time(low: number, high: number): void {
    let since = (high - secondHigh) * WORD + (low - secondLow);
    if (secondText.length === 0 || since < 0 || since >= BILLION) {
      const ns = (BigInt(high) << 32n) | BigInt(low);
      const second = ns / BigInt(BILLION);
      // Timestamps in the first second since the epoch have no digits of seconds.
      if (second === 0n) {
        unsigned(low, high);
        return;
      }
      secondText = Buffer.from(second.toString());
      const startNs = second * BigInt(BILLION);
      secondLow = Number(startNs & 0xffffffffn);
      secondHigh = Number(startNs >> 32n);
      since = Number(ns - startNs);
    }
    add(secondText);
    ensure(NUMBER_BYTES_MAX);
    padded(since, BILLION_DIGITS);
  }

  function hexWord(word: number): void {
    for (let shift = 28; shift >= 0; shift -= 4) bytes[length++] = HEX_DIGITS[(word >>> shift) & 15]!;
  }

  return {
    get length() {
      return length;
    },
    add,
    natural,
    unsigned,
    signed(low, high) {
      if (high < SIGN) {
        unsigned(low, high);
        return;
      }
      ensure(1);
      bytes[length++] = MINUS;
      // Negates by two's complement.
      unsigned(-low >>> 0, (~high + (low === 0 ? 1 : 0)) >>> 0);
    },
    time,
    hex(low, high) {
      ensure(HEX_BYTES);
      hexWord(high);
      hexWord(low);
    },
    take() {
      const piece = bytes.subarray(0, length);
      [bytes, taken] = [taken, bytes];
      length = 0;
      return piece;
    },
  };
}
