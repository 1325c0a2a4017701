/** Tests integers through JSON, both ways, against their own decimal digits. */
import fc from 'fast-check';
import { parseJson, stringify } from '../../../daemon/base/exact_json.ts';

const integers = fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n });

test('a bigint is written as its digits', () => {
  fc.assert(fc.property(integers, (value) => stringify({ a: [value] }) === `{"a":[${value}]}`));
});

test('any integer is read exactly', () => {
  fc.assert(
    fc.property(integers, (value) => BigInt((parseJson(`{"a":${value}}`) as { a: number | bigint }).a) === value),
  );
});

test('integers that a double can represent stay numbers', () => {
  expect(parseJson('[0, -0, 1, 9007199254740991, -9007199254740991]')).toEqual([0, -0, 1, 2 ** 53 - 1, -(2 ** 53) + 1]);
  expect(parseJson('[9007199254740992, 9007199254740993]')).toEqual([2n ** 53n, 2n ** 53n + 1n]);
});

test('everything else is read as JSON.parse reads it', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      const text = JSON.stringify(value);
      fc.pre(!/[\d.]{16}|e[+-]?\d/.test(text));
      expect(parseJson(text)).toEqual(JSON.parse(text));
    }),
  );
});

test.each([
  ['1.0', 1],
  ['1e3', 1000],
  ['1.50e1', 15],
  ['1000e-3', 1],
  ['0.0', 0],
  ['0e5', 0],
  ['0.1', 0.1],
  ['1e-3', 0.001],
])('%s keeps its value', (text, value) => {
  expect(parseJson(text)).toBe(value);
});

test.each(['1e16', '9007199254740993.0', '9007199254740991.4', '0.99999999999999999999', '1e-400', '1e400', '-1e400'])(
  '%s would be rounded, so it is refused with its field',
  (text) => {
    expect(() => parseJson(`{"extra_latency_ns": ${text}}`)).toThrow(
      expect.objectContaining({
        code: 'invalid_body',
        errors: [expect.objectContaining({ pointer: '/extra_latency_ns' })],
      }),
    );
  },
);
