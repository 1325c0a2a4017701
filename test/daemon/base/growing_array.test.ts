/** Tests that arrays and buffers keep what they hold when they grow, and become at least twice as long. */
import { growArray } from '../../../daemon/base/growing_array.ts';
import { growBuffer } from '../../../daemon/base/growing_buffer.ts';

test.each([
  [new Float64Array([0.5, -1]), 4],
  [new Uint8Array([255]), 2],
  [new BigInt64Array([-(2n ** 63n), 7n, 2n ** 63n - 1n]), 6],
])('%p keeps its type and its values', (values, length) => {
  const larger = growArray(values as Float64Array);
  expect(larger.constructor).toBe(values.constructor);
  expect(larger).toHaveLength(length);
  expect(larger.subarray(0, values.length)).toEqual(values);
});

test('an array has at least the length that is asked for', () => {
  expect(growArray(new Uint32Array(0), 5)).toEqual(new Uint32Array(5));
  expect(growArray(new Uint32Array([3]), 5)).toEqual(new Uint32Array([3, 0, 0, 0, 0]));
});

test('a buffer keeps only the bytes that are used', () => {
  const larger = growBuffer(Buffer.from('abcd'), 3, 5);
  expect([larger.length, larger.toString('latin1', 0, 3)]).toEqual([10, 'abc']);
});
