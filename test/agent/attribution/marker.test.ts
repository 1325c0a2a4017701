/**
 * Tests the marker line: every row of its grammar, what is dropped and counted, and that formatted markers parse back.
 */
import fc from 'fast-check';
import {
  formatMarker,
  isTransactionId,
  MARKER_BYTES_MAX,
  type Marker,
  type MarkerFields,
  parseMarker,
} from '../../../agent/attribution/marker.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const NOTHING: Marker = { transactionId: null, traceId: null, spanId: null, service: null, badFields: 0 };

test.each<[string, Partial<Marker>]>([
  ['txn=order-8812\n', { transactionId: 'order-8812' }],
  ['txn=order-8812', { transactionId: 'order-8812' }],
  [`trace=${TRACE}`, { traceId: TRACE }],
  [`span=${SPAN}`, { spanId: SPAN }],
  [`tp=00-${TRACE}-${SPAN}-01`, { traceId: TRACE, spanId: SPAN }],
  [`tp=cc-${TRACE}-${SPAN}-00`, { traceId: TRACE, spanId: SPAN }],
  ['svc=checkout', { service: 'checkout' }],
  [`txn=a trace=${TRACE} span=${SPAN} svc=b\n`, { transactionId: 'a', traceId: TRACE, spanId: SPAN, service: 'b' }],
  ['proc txn=a', { transactionId: 'a' }],
  ['proc proc=a txn=b', { transactionId: 'b' }],
  ['proc=a', {}],
  ['x-order-kind=express txn=a', { transactionId: 'a' }],
  ['colour=red txn=a', { transactionId: 'a' }],
  ['end', { badFields: 1 }],
  ['proc end', { badFields: 1 }],
])('KREPLAY1 %s', (body, fields) => {
  expect(parseMarker(`KREPLAY1 ${body}`)).toEqual({ ...NOTHING, ...fields });
});

test.each([
  ['a%20b', 'a b'],
  ['100%25', '100%'],
  ['%e2%82%AC', '€'],
  ['a%0Ab', 'a\nb'],
  ['Größe-€-🧾', 'Größe-€-🧾'],
  ['a=b', 'a=b'],
  ['a,b;c"d\'e\\f', 'a,b;c"d\'e\\f'],
  ['+', '+'],
])('the value %s is decoded to %p', (value, id) => {
  expect(parseMarker(`KREPLAY1 txn=${value}`)).toEqual({ ...NOTHING, transactionId: id });
});

test.each([
  ['an empty value', 'txn='],
  ['no key', '=a'],
  ['no equals sign', 'order-8812'],
  ['a percent sign by itself', 'txn=100%'],
  ['a percent sign and one digit', 'txn=a%2'],
  ['a percent sign and no digits', 'txn=%zz'],
  ['an escaped byte that is not UTF-8', 'txn=%ff'],
  ['an escaped half of a surrogate pair', 'txn=%ed%a0%80'],
  ['a control character', 'txn=a\tb'],
  ['a line feed inside', 'txn=a\nb'],
  ['a carriage return', 'txn=a\r'],
  ['a NUL', 'txn=a\0'],
  ['a delete character', 'txn=a\x7f'],
  ['a trace of 31 digits', `trace=${TRACE.slice(1)}`],
  ['a trace of 33 digits', `trace=${TRACE}0`],
  ['a trace in upper case', `trace=${TRACE.toUpperCase()}`],
  ['a trace that is all zero', `trace=${'0'.repeat(32)}`],
  ['a trace that is not hexadecimal', `trace=${'g'.repeat(32)}`],
  ['a span of 15 digits', `span=${SPAN.slice(1)}`],
  ['a span that is all zero', `span=${'0'.repeat(16)}`],
  ['a traceparent without flags', `tp=00-${TRACE}-${SPAN}`],
  ['a traceparent with trailing text', `tp=00-${TRACE}-${SPAN}-01-x`],
  ['a traceparent of the forbidden version', `tp=ff-${TRACE}-${SPAN}-01`],
  ['a traceparent without a trace', `tp=00-${'0'.repeat(32)}-${SPAN}-01`],
  ['a traceparent without a span', `tp=00-${TRACE}-${'0'.repeat(16)}-01`],
  ['a second blank', ''],
  ['a transaction that no address can have', 'txn=.'],
  ['the same, escaped', 'txn=%2E%2e'],
])('%s is dropped and counted, and the rest is kept', (_, field) => {
  expect(parseMarker(`KREPLAY1 svc=shop ${field} txn=kept`)).toEqual({
    ...NOTHING,
    service: 'shop',
    transactionId: 'kept',
    badFields: 1,
  });
});

test.each<[string, Partial<Marker>]>([
  ['txn=a txn=b txn=c', { transactionId: 'c' }],
  [`trace=${'1'.repeat(32)} tp=00-${TRACE}-${SPAN}-01`, { traceId: TRACE, spanId: SPAN }],
  [`tp=00-${TRACE}-${SPAN}-01 trace=${'1'.repeat(32)}`, { traceId: '1'.repeat(32), spanId: SPAN }],
  [`tp=00-${TRACE}-${SPAN}-01 trace=x`, { traceId: TRACE, spanId: SPAN, badFields: 1 }],
])('the last valid value of a repeated key counts: %s', (body, fields) => {
  expect(parseMarker(`KREPLAY1 ${body}`)).toEqual({ ...NOTHING, ...fields });
});

test.each(['', '\n', 'KREPLAY2 txn=a', 'kreplay1 txn=a', ' KREPLAY1 txn=a', 'KREPLAY1txn=a', 'KREPLAY1\ttxn=a'])(
  '%p is not a marker',
  (line) => expect(parseMarker(line)).toBeNull(),
);

test.each(['KREPLAY1', 'KREPLAY1\n'])('%p sets nothing', (line) => expect(parseMarker(line)).toEqual(NOTHING));

test('any text is parsed or refused, and the resulting ids are well formed', () => {
  const keys = fc.constantFrom(
    'txn=',
    'trace=',
    'span=',
    'tp=',
    'svc=',
    'proc ',
    'end',
    'x-a=',
    ' ',
    TRACE,
    SPAN,
    '%',
    '-',
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(keys, fc.string({ unit: 'binary' }))), (parts) => {
      const marker = parseMarker(`KREPLAY1 ${parts.join('')}`)!;
      expect(marker.traceId ?? TRACE).toMatch(/^[0-9a-f]{32}$/);
      expect(marker.spanId ?? SPAN).toMatch(/^[0-9a-f]{16}$/);
      expect(marker.transactionId).not.toBe('');
      expect(marker.service).not.toBe('');
    }),
  );
});

const hexDigit = fc.constantFrom(...'0123456789abcdef');
const traceId = fc.string({ unit: hexDigit, minLength: 32, maxLength: 32 }).filter((id) => /[^0]/.test(id));

/** Any Unicode text without lone surrogates that an address can have, with many characters that need escaping. */
function id(maxLength: number): fc.Arbitrary<string> {
  const unit = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    fc.constantFrom(...' %=\n\r\t\0\x7f-é'),
  );
  return fc
    .array(unit, { minLength: 1, maxLength })
    .map((characters) => characters.join(''))
    .filter(isTransactionId);
}

function bytesOf(line: string): Uint8Array {
  return new TextEncoder().encode(line);
}

test('parseMarker reads what formatMarker writes, through the bytes', () => {
  const fields: fc.Arbitrary<MarkerFields> = fc.record(
    { transactionId: id(60), traceId, service: id(20) },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fields, (given) => {
      const bytes = bytesOf(formatMarker(given));
      expect(bytes.length).toBeLessThanOrEqual(MARKER_BYTES_MAX);
      expect(bytes.indexOf(10)).toBe(bytes.length - 1);
      expect(parseMarker(new TextDecoder().decode(bytes))).toEqual({
        ...NOTHING,
        transactionId: given.transactionId ?? null,
        traceId: given.traceId ?? null,
        service: given.service ?? null,
      });
    }),
    { numRuns: 500 },
  );
});

test('a line fits into one write, or formatting it is refused', () => {
  fc.assert(
    fc.property(id(1100), (transactionId) => {
      let line: string;
      try {
        line = formatMarker({ transactionId });
      } catch (error) {
        expect((error as Error).name).toBe('RangeError');
        const escaped = [...transactionId].map((c) => bytesOf(c).length * (/[\0-\x20%\x7f]/.test(c) ? 3 : 1));
        expect('KREPLAY1 txn=\n'.length + escaped.reduce((a, b) => a + b)).toBeGreaterThan(MARKER_BYTES_MAX);
        return;
      }
      expect(bytesOf(line).length).toBeLessThanOrEqual(MARKER_BYTES_MAX);
    }),
  );
});

test('the longest line is as long as one write may be, including its line feed', () => {
  const longest = MARKER_BYTES_MAX - 'KREPLAY1 txn=\n'.length;
  expect(formatMarker({ transactionId: 'x'.repeat(longest) })).toHaveLength(MARKER_BYTES_MAX);
  expect(() => formatMarker({ transactionId: 'x'.repeat(longest + 1) })).toThrow(
    new RangeError('the marker line is 1024 bytes long, at most 1023 fit; shorten the ids'),
  );
  expect(() => formatMarker({ transactionId: '€'.repeat(340) })).toThrow(RangeError);
});
