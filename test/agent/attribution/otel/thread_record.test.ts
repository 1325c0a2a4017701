/** Tests records of threads: the layout, truncated and forged records, and that encoded ones decode to the same. */
import fc from 'fast-check';
import {
  decodeThreadRecord,
  THREAD_RECORD_HEAD_BYTES,
  TRANSACTION_ATTRIBUTE,
} from '../../../../agent/attribution/otel/thread_record.ts';
import { THREAD_RECORD_SIZE } from '../../../../bpf/schema/definitions.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const NO_TRACE = '0'.repeat(32);
const NO_SPAN = '0'.repeat(16);
const KEYS = ['http.route', TRANSACTION_ATTRIBUTE];

interface RecordFields {
  traceId: string;
  spanId: string;
  valid: number;
  flags: number;
  attributes: readonly (readonly [key: number, value: string | Uint8Array])[];
}

function record(fields: Partial<RecordFields>): Buffer {
  const { traceId, spanId, valid, flags, attributes }: RecordFields = {
    ...{ traceId: TRACE, spanId: SPAN, valid: 1, flags: 1, attributes: [] },
    ...fields,
  };
  const data = attributes.map(([key, value]) => {
    const bytes = Buffer.from(value);
    return Buffer.concat([Uint8Array.of(key, bytes.length), bytes]);
  });
  const size = Buffer.alloc(2);
  size.writeUInt16LE(Buffer.concat(data).length);
  const ids = Buffer.from(traceId + spanId, 'hex');
  return Buffer.concat([ids, Uint8Array.of(valid, flags), size, ...data]);
}

const NO_ATTRIBUTES = { attributes: new Map(), hasUnknownKey: false };

test('ids and attributes are read at the offsets of the layout', () => {
  const bytes = Uint8Array.from([
    ...[0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36],
    ...[0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7],
    ...[1, 1, 9, 0],
    ...[1, 3, 0x61, 0x2d, 0x31],
    ...[0, 2, 0x2f, 0x78],
  ]);
  expect(decodeThreadRecord(bytes, KEYS)).toEqual({
    traceId: TRACE,
    spanId: SPAN,
    attributes: new Map([
      ['transaction.id', 'a-1'],
      ['http.route', '/x'],
    ]),
    hasUnknownKey: false,
  });
});

test.each<[string, Partial<RecordFields>, object | undefined]>([
  ['of a span', {}, { traceId: TRACE, spanId: SPAN }],
  ['of no span', { traceId: NO_TRACE, spanId: NO_SPAN }, { traceId: null, spanId: null }],
  ['of half a span', { traceId: NO_TRACE }, { traceId: null, spanId: null }],
  ['of the other half', { spanId: NO_SPAN }, { traceId: null, spanId: null }],
  ['of a span that is not sampled', { flags: 0 }, { traceId: TRACE, spanId: SPAN }],
  ['that is not valid', { valid: 0 }, undefined],
  ['of a reserved validity', { valid: 2 }, undefined],
])('a record %s', (_, fields, ids) => {
  expect(decodeThreadRecord(record(fields), KEYS)).toEqual(ids && { ...NO_ATTRIBUTES, ...ids });
});

test.each<[string, RecordFields['attributes'], readonly (readonly [string, string])[], boolean]>([
  [
    'the last of a repeated key',
    [
      [1, 'a'],
      [0, 'b'],
      [1, 'c'],
    ],
    [
      ['transaction.id', 'c'],
      ['http.route', 'b'],
    ],
    false,
  ],
  ['an empty value', [[1, '']], [['transaction.id', '']], false],
  ['the longest value', [[1, 'x'.repeat(255)]], [['transaction.id', 'x'.repeat(255)]], false],
  ['more than ASCII', [[1, 'Größe-€-🧾']], [['transaction.id', 'Größe-€-🧾']], false],
  [
    'a key that the map does not have',
    [
      [2, 'new'],
      [1, 'a'],
    ],
    [['transaction.id', 'a']],
    true,
  ],
  [
    'not UTF-8',
    [
      [1, Uint8Array.of(0xff)],
      [0, 'b'],
    ],
    [['http.route', 'b']],
    false,
  ],
  [
    'not UTF-8 after a valid value',
    [
      [1, 'old'],
      [1, Uint8Array.of(0xff)],
    ],
    [],
    false,
  ],
])('attributes: %s', (_, attributes, expected, hasUnknownKey) => {
  const decoded = decodeThreadRecord(record({ attributes }), KEYS)!;
  expect([...decoded.attributes].sort()).toEqual([...expected].sort());
  expect(decoded.hasUnknownKey).toBe(hasUnknownKey);
});

test('attributes of a record without ids are kept', () => {
  const bytes = record({ traceId: NO_TRACE, spanId: NO_SPAN, attributes: [[1, 'order-1']] });
  expect(decodeThreadRecord(bytes, KEYS)).toEqual({
    traceId: null,
    spanId: null,
    attributes: new Map([['transaction.id', 'order-1']]),
    hasUnknownKey: false,
  });
});

test('attributes end at the first incomplete one, and at the size that the record states', () => {
  const whole = record({
    attributes: [
      [0, 'route'],
      [1, 'order-1'],
    ],
  });
  for (let size = THREAD_RECORD_HEAD_BYTES; size <= whole.length; size++) {
    const { attributes } = decodeThreadRecord(whole.subarray(0, size), KEYS)!;
    expect([...attributes.values()]).toEqual(
      ['route', 'order-1'].slice(0, size < 35 ? 0 : size < whole.length ? 1 : 2),
    );
  }
  whole.writeUInt16LE(7, 26);
  expect([...decodeThreadRecord(whole, KEYS)!.attributes.values()]).toEqual(['route']);
});

test('fewer bytes than a header are not decoded', () => {
  for (let size = 0; size < THREAD_RECORD_HEAD_BYTES; size++) {
    expect(decodeThreadRecord(record({}).subarray(0, size), KEYS)).toBeUndefined();
  }
});

test('decoding reverses encoding', () => {
  const id = (digits: number) =>
    fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: digits, maxLength: digits });
  const text = fc.string({ unit: 'binary', maxLength: 60 });
  const keys = fc.uniqueArray(
    text.filter((key) => key !== ''),
    { maxLength: 256 },
  );
  const attributes = fc.array(fc.tuple(fc.nat(255), text), { maxLength: 10 });
  fc.assert(
    fc.property(id(32), id(16), keys, attributes, (traceId, spanId, names, list) => {
      const decoded = decodeThreadRecord(record({ traceId, spanId, attributes: list }), names)!;
      const hasSpan = /[^0]/.test(traceId) && /[^0]/.test(spanId);
      expect([decoded.traceId, decoded.spanId]).toEqual(hasSpan ? [traceId, spanId] : [null, null]);
      const known = list.filter(([key]) => key < names.length);
      expect(decoded.attributes).toEqual(new Map(known.map(([key, value]) => [names[key]!, value])));
      expect(decoded.hasUnknownKey).toBe(known.length < list.length);
    }),
  );
});

test('any bytes are decoded or refused, also as a part of others', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: THREAD_RECORD_SIZE }), fc.nat(8), (bytes, front) => {
      if (bytes.length > 24) bytes[24] = 1;
      const within = new Uint8Array(front + bytes.length + 300).fill(0x41);
      within.set(bytes, front);
      const decoded = decodeThreadRecord(within.subarray(front, front + bytes.length), KEYS);
      expect(decoded).toEqual(decodeThreadRecord(bytes, KEYS));
      expect(decoded === undefined).toBe(bytes.length < THREAD_RECORD_HEAD_BYTES);
      expect(decoded?.traceId ?? TRACE).toMatch(/^[0-9a-f]{32}$/);
    }),
  );
});
