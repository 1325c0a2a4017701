/**
 * Differences between neighbouring 64-bit values, zigzagged so that small negative ones are small too. Two 32-bit
 * words a value, wrapping as 64-bit integers do.
 */
/** Kept from call to call. */
let scratch = new Uint32Array(0);

/** Words of the differences, valid until the next call; the first is zero, its value is kept apart. */
export function toDelta(input: Uint32Array): Uint32Array {
  if (scratch.length < input.length) scratch = new Uint32Array(input.length);
  const output = scratch.subarray(0, input.length);
  output[0] = output[1] = 0;
  for (let i = 2; i < input.length; i += 2) {
    const low = input[i]! - input[i - 2]!;
    const high = (input[i + 1]! - input[i - 1]! - (low < 0 ? 1 : 0)) | 0;
    const sign = high >> 31;
    output[i] = (low << 1) ^ sign;
    output[i + 1] = ((high << 1) | ((low >>> 31) & 1)) ^ sign;
  }
  return output;
}

/** In place: differences become values. `base` is the first value's eight bytes. */
export function fromDelta(words: Uint32Array, base: Uint8Array): void {
  const first = new DataView(base.buffer, base.byteOffset);
  let low = first.getUint32(0, true);
  let high = first.getUint32(4, true);
  for (let i = 0; i < words.length; i += 2) {
    const sign = -(words[i]! & 1);
    const deltaLow = (((words[i]! >>> 1) | (words[i + 1]! << 31)) ^ sign) >>> 0;
    const deltaHigh = (words[i + 1]! >>> 1) ^ sign;
    const sum = low + deltaLow;
    low = sum >>> 0;
    high = (high + deltaHigh + (sum > 0xffffffff ? 1 : 0)) >>> 0;
    words[i] = low;
    words[i + 1] = high;
  }
}
