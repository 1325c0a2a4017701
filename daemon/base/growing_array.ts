/** Grows typed arrays. Their length is fixed, so the values are copied to a longer array. */
type NumberArray =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

/**
 * Returns an array with the same values and at least `length` elements. The array is at least twice as long as
 * `values`, so that copies are rare. Callers compare the lengths before they call this function, because a call for
 * each added value would cost more than storing the value.
 */
export function growArray<Values extends NumberArray>(values: Values, length = 0): Values {
  const larger = new (values.constructor as new (length: number) => Values)(Math.max(length, 2 * values.length));
  larger.set(values as never);
  return larger;
}
