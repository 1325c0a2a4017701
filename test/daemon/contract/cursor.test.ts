/** Tests that a cursor decodes to what was encoded, or is refused with the right code. */
import fc from 'fast-check';
import { type Cursor, computeFingerprint, decodeCursor, encodeCursor } from '../../../daemon/contract/cursor.ts';

const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const i64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const cursors: fc.Arbitrary<Cursor> = fc.record({
  key: fc.record({ timestamp_ns: u64, event_id: fc.stringMatching(/^[0-9a-f]{16}-[0-9a-f]{16}$/) }),
  nowNs: i64,
});
const LISTS = ['service'];
const ANY = computeFingerprint({}, LISTS);

function codeOf(decode: () => unknown): string {
  try {
    decode();
    return 'accepted';
  } catch (error) {
    return (error as { code: string }).code;
  }
}

test('decoding reverses encoding for any position', () => {
  fc.assert(
    fc.property(cursors, (cursor) => {
      expect(decodeCursor(encodeCursor(cursor, ANY), ANY)).toEqual(cursor);
    }),
  );
});

test('a change of any character is detected', () => {
  fc.assert(
    fc.property(cursors, fc.nat(), fc.constantFrom(...'Aaz09-_ =%'), (cursor, place, character) => {
      const text = encodeCursor(cursor, ANY);
      const index = place % text.length;
      const changed = text.slice(0, index) + character + text.slice(index + 1);
      fc.pre(changed !== text);
      expect(codeOf(() => decodeCursor(changed, ANY))).toBe('invalid_cursor');
    }),
  );
});

test('text that is not a cursor is refused', () => {
  fc.assert(fc.property(fc.string(), (text) => codeOf(() => decodeCursor(text, ANY)) === 'invalid_cursor'));
});

test('a cursor of another query is a mismatch', () => {
  const cursor = { key: { timestamp_ns: 1n, event_id: 'a' }, nowNs: 0n };
  const text = encodeCursor(cursor, computeFingerprint({ service: 'a', limit: '5' }, LISTS));
  for (const other of [
    {},
    { service: 'b', limit: '5' },
    { service: 'a' },
    { service: 'a', limit: '6' },
    { service: 'a', limit: '5', pid: '1' },
  ])
    expect(codeOf(() => decodeCursor(text, computeFingerprint(other, LISTS)))).toBe('cursor_mismatch');
});

test('the same query in another notation has the same cursor', () => {
  const asked = computeFingerprint({ service: ['a', 'b'], pid: '1', cursor: 'x' }, LISTS);
  expect(computeFingerprint({ pid: '1', service: 'b,a' }, LISTS)).toEqual(asked);
  // A comma in a parameter that is no list is part of its value.
  expect(computeFingerprint({ comm: 'a,b' }, LISTS)).not.toEqual(computeFingerprint({ comm: 'b,a' }, LISTS));
});
