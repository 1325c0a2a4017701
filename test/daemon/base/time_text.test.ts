/** Tests times as text: every 64-bit time, whatever its year, to the nanosecond, in JavaScript and as C++ writes it. */
import fc from 'fast-check';
import { KEY_BYTES, nativeTextRows, ROW_OPS, type RowPart, STATE } from '../../../bpf/schema/native_text_rows.ts';
import { addTimeTexts, createTimeFormatter, formatTime, nameTimeText } from '../../../daemon/base/time_text.ts';
import { times } from '../../repeats.ts';

const I64 = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const U64 = [0n, 2n ** 64n - 1n] as const;
const DAY_NS = 86_400_000_000_000n;
const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/;

/** Counts the digits of the nanoseconds apart from the milliseconds, of which Date has as many as are exact. */
function oracle(ns: bigint): string {
  const below = ((ns % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const date = new Date(Number((ns - below) / 1_000_000n));
  return `${date.toISOString().slice(0, -1)}${String(below).padStart(6, '0')}Z`;
}

/** Days on which a calendar goes wrong: around the end of February in centuries, and the ends of years. */
const days = [1677, 1700, 1899, 1900, 1969, 1970, 2000, 2024, 2100, 2261, 2262, 2400, 2554].flatMap((year) =>
  ['01-01', '02-28', '03-01', '12-31'].map((day) => BigInt(Date.parse(`${year}-${day}T00:00:00Z`)) * 1_000_000n),
);

function anyTime([min, max]: readonly [bigint, bigint]): fc.Arbitrary<bigint> {
  const around = fc
    .tuple(fc.constantFrom(0n, min, max, ...days), fc.bigInt({ min: -2n * DAY_NS, max: 2n * DAY_NS }))
    .map(([day, offset]) => day + offset)
    .filter((ns) => ns >= min && ns <= max);
  const edges = fc.constantFrom(...[min, max, 0n, -1n, -999_999_999n, -1_000_000_000n, 999_999_999n, 1_000_000_000n]);
  return fc.oneof(
    fc.bigInt({ min, max }),
    around,
    edges.filter((ns) => ns >= min && ns <= max),
  );
}

test.each([
  ['signed', I64],
  ['unsigned', U64],
])('every %s 64-bit time is RFC 3339 with all its digits', (_, range) => {
  fc.assert(
    fc.property(anyTime(range), (ns) => {
      expect(formatTime(ns)).toBe(oracle(ns));
      expect(formatTime(ns)).toMatch(RFC_3339);
    }),
    { numRuns: times(2000) },
  );
});

test('a formatter that keeps the last second says the same in any order of times', () => {
  const format = createTimeFormatter();
  const close = anyTime(I64).chain((ns) =>
    fc.array(fc.bigInt({ min: -3_000_000_000n, max: 3_000_000_000n }).map((by) => ns + by)),
  );
  fc.assert(
    fc.property(close, (all) => {
      expect(all.map(format)).toEqual(all.map(formatTime));
    }),
    { numRuns: times(500) },
  );
});

test('what RFC 3339 has no year for is the number', () => {
  for (const ns of [-62_167_219_200n * 10n ** 9n - 1n, 253_402_300_800n * 10n ** 9n, 10n ** 40n, -(10n ** 40n)]) {
    expect(formatTime(ns)).toBe(ns.toString());
    expect(createTimeFormatter()(ns)).toBe(ns.toString());
  }
  expect(formatTime(-62_167_219_200n * 10n ** 9n)).toBe('0000-01-01T00:00:00.000000000Z');
  expect(formatTime(253_402_300_800n * 10n ** 9n - 1n)).toBe('9999-12-31T23:59:59.999999999Z');
});

test('a text is beside each time', () => {
  expect(nameTimeText('first_timestamp_ns')).toBe('first_timestamp');
  expect(nameTimeText('recorded_until')).toBe('recorded_until_time');
  expect(Object.entries(addTimeTexts({ from: 1n, last_end_ns: null }))).toEqual([
    ['from', 1n],
    ['from_time', '1970-01-01T00:00:00.000000001Z'],
    ['last_end_ns', null],
    ['last_end', null],
  ]);
});

const part = (op: keyof typeof ROW_OPS, columns: readonly number[], after = ''): RowPart => ({
  op: ROW_OPS[op],
  before: Buffer.from(''),
  after: Buffer.from(after),
  none: Buffer.from(''),
  columns: Uint32Array.from(columns),
  table: 0,
  unknown: undefined,
});
const layout = nativeTextRows.createRowLayout(2, 0, [part('time', [1], '|')], [undefined, []]);

/** Writes times as a row's part, with as many bytes of room as given; returns what fits. */
function writeTimes(values: BigInt64Array | BigUint64Array, room: number): { text: string; rows: number } {
  const rows = values.length;
  const output = Buffer.alloc(room);
  const state = new Uint32Array(STATE.length);
  const columns = [new Uint8Array(rows).fill(1), values];
  const texts = nativeTextRows.createRowTexts();
  const own = Uint32Array.from(values.keys());
  nativeTextRows.writeTextRows(
    layout,
    texts,
    columns,
    own,
    rows,
    Buffer.from(''),
    output,
    state,
    new Uint8Array(KEY_BYTES),
    undefined,
  );
  return { text: output.toString('latin1', 0, state[STATE.offset]), rows: state[STATE.row]! };
}

const TIME_BYTES = '2026-11-30T16:52:17.123456789Z|'.length;

test.each([
  ['signed', I64, BigInt64Array],
  ['unsigned', U64, BigUint64Array],
])('%s times in a column are the same text', (_, range, Values) => {
  fc.assert(
    fc.property(fc.array(anyTime(range), { maxLength: 20 }), (all) => {
      const written = writeTimes(Values.from(all), all.length * TIME_BYTES);
      expect(written).toEqual({ text: all.map((ns) => `${oracle(ns)}|`).join(''), rows: all.length });
    }),
    { numRuns: times(2000) },
  );
});

test('a time that does not fit is left for the next buffer, whole', () => {
  const values = BigInt64Array.from([0n, -1n, 5_000_000_000n]);
  for (let room = 0; room <= 3 * TIME_BYTES; room++) {
    const rows = Math.floor(room / TIME_BYTES);
    const text = [...values]
      .slice(0, rows)
      .map((ns) => `${oracle(ns)}|`)
      .join('');
    expect(writeTimes(values, room)).toEqual({ text, rows });
  }
});
