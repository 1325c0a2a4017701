/** 64-bit values as pairs of 32-bit words, low word first. Comparing words allocates no BigInt. */
export function toWords(values: BigUint64Array | BigInt64Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length * 2);
}

export function wordsToBigint(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}

/** Returns the smallest and the largest value of rows [from, to), which must not be empty. */
export function findExtremes(values: BigUint64Array, from: number, to: number): { min: bigint; max: bigint } {
  const words = toWords(values);
  let min = from * 2;
  let max = min;
  for (let i = min + 2; i < to * 2; i += 2) {
    const high = words[i + 1]!;
    const low = words[i]!;
    if (high < words[min + 1]! || (high === words[min + 1]! && low < words[min]!)) min = i;
    else if (high > words[max + 1]! || (high === words[max + 1]! && low > words[max]!)) max = i;
  }
  return { min: values[min / 2]!, max: values[max / 2]! };
}
