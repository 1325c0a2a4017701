/** Tests columns and segments: encoding round-trips for any values; damaged bytes are an error, never a crash. */
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import {
  computeEncodedBytesMax,
  decodeColumn,
  encodeColumn,
  STORAGE_WIDTH,
} from '../../../../agent/recording/codec/column_bytes.ts';
import { openSegmentData } from '../../../../agent/recording/codec/decode_segment.ts';
import { type BlockRange, createSegmentEncoder } from '../../../../agent/recording/codec/encode_segment.ts';
import { type Block, type ColumnArray, createColumnArray } from '../../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../../bpf/schema/columns.ts';
import type { Encoding, Storage } from '../../../../bpf/schema/kinds.ts';
import { blockOf, type Row } from '../fixture.ts';

const LIMITS: Record<Storage, [bigint, bigint]> = {
  u8: [0n, 2n ** 8n - 1n],
  u16: [0n, 2n ** 16n - 1n],
  u32: [0n, 2n ** 32n - 1n],
  i32: [-(2n ** 31n), 2n ** 31n - 1n],
  u64: [0n, 2n ** 64n - 1n],
  i64: [-(2n ** 63n), 2n ** 63n - 1n],
};
const ENCODINGS: Encoding[] = ['plain', 'delta'];
const IDS = new Map(COLUMNS.map(({ name }, i) => [name, i + 1]));

/** Extremes, runs of equal values, and steps around a base. */
function valuesOf(storage: Storage): fc.Arbitrary<bigint[]> {
  const [min, max] = LIMITS[storage];
  const any = fc.oneof(fc.constantFrom(min, max, 0n, 1n), fc.bigInt({ min, max }));
  const near = fc.tuple(any, fc.array(fc.bigInt({ min: -3000n, max: 3000n }), { minLength: 1, maxLength: 300 }));
  const wrap = (value: bigint) =>
    min < 0n ? BigInt.asIntN(bits(storage), value) : BigInt.asUintN(bits(storage), value);
  return fc.oneof(
    fc.array(any, { minLength: 1, maxLength: 300 }),
    near.map(([base, steps]) => steps.map((step) => wrap(base + step))),
    fc.tuple(any, fc.integer({ min: 1, max: 300 })).map(([value, count]) => Array<bigint>(count).fill(value)),
  );
}

const bits = (storage: Storage) => STORAGE_WIDTH[storage] * 8;

function columnOf(storage: Storage, values: bigint[]): ColumnArray {
  const column = createColumnArray(storage, values.length) as unknown as { [i: number]: bigint | number };
  values.forEach((value, i) => {
    column[i] = bits(storage) === 64 ? value : Number(value);
  });
  return column as unknown as ColumnArray;
}

describe.each(Object.keys(LIMITS) as Storage[])('%s', (storage) => {
  test.each(ENCODINGS)('encoding and decoding %s values returns them', (encoding) => {
    fc.assert(
      fc.property(valuesOf(storage), (values) => {
        const column = columnOf(storage, values);
        const output = Buffer.alloc(computeEncodedBytesMax(values.length, STORAGE_WIDTH[storage]) + 3, 0xaa);
        const end = encodeColumn(column, encoding, output, 3);
        expect(end).toBeLessThanOrEqual(output.length);
        const decoded = createColumnArray(storage, values.length);
        decodeColumn(output.subarray(3, end), decoded);
        expect(decoded).toEqual(column);
      }),
    );
  });

  test.each(ENCODINGS)('damaged %s bytes give an error or other values', (encoding) => {
    fc.assert(
      fc.property(valuesOf(storage), damage(), (values, damaged) => {
        const output = Buffer.alloc(computeEncodedBytesMax(values.length, STORAGE_WIDTH[storage]));
        const end = encodeColumn(columnOf(storage, values), encoding, output, 0);
        const bytes = damaged(output.subarray(0, end));
        expectCorruptOrValue(() => decodeColumn(bytes, createColumnArray(storage, values.length)));
      }),
    );
  });
});

const row: fc.Arbitrary<Row> = fc.constantFrom('sys_write', 'block_io').chain((event_type) =>
  fc.record({
    event_type: fc.constant(event_type as 'sys_write' | 'block_io'),
    timestamp_ns: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    duration_ns: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    result: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    pid: fc.nat(),
    'sys_write.fd': fc.integer(),
    'sys_write.bytes_requested': fc.constantFrom(0n, 2n ** 64n - 1n),
    'block_io.sector': fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    'block_io.queue_ns': fc.constantFrom(7n, 2n ** 64n - 1n),
  }),
);

function whole(block: Block): BlockRange {
  return { from: 0, to: block.rowCount, typeFrom: new Uint32Array(block.typeCounts.length), typeTo: block.typeCounts };
}

test('a segment returns every column, and absent ones as absent', () => {
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 100 }), (rows) => {
      const block = blockOf(rows);
      const segment = openSegmentData(createSegmentEncoder(IDS)(block, whole(block)), IDS);
      expect(segment.rowCount).toBe(rows.length);
      for (const column of COLUMNS) {
        const length = column.eventType === 0 ? rows.length : block.typeCounts[column.eventType]!;
        expect(segment.typeRowCount(column.eventType)).toBe(length);
        expect(segment.readColumn(column)).toEqual(block.columns.get(column.name)!.subarray(0, length));
      }
    }),
    { numRuns: 40 },
  );
});

test('a column that an older file lacks reads as unknown', () => {
  const block = blockOf([{ pid: 7, 'sys_write.bytes_requested': 64n, 'sys_write.fd': 3 }]);
  const older = new Map(IDS);
  for (const name of ['pid', 'sys_write.bytes_requested']) older.delete(name);
  const segment = openSegmentData(createSegmentEncoder(IDS)(block, whole(block)), older);
  const value = (name: string) => segment.readColumn(COLUMNS.find((column) => column.name === name)!)[0];
  expect([value('pid'), value('sys_write.bytes_requested'), value('sys_write.fd')]).toEqual([0, 2n ** 64n - 1n, 3]);
});

test('a damaged segment is refused', () => {
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 50 }), damage(), (rows, damaged) => {
      const block = blockOf(rows);
      const bytes = damaged(createSegmentEncoder(IDS)(block, whole(block)));
      expect(() => openSegmentData(bytes, IDS)).toThrow(expect.objectContaining({ code: 'recording_corrupt' }));
    }),
  );
});

test.each(['text', 7, null])('a segment whose data is %p is refused', (data) => {
  const open = () => openSegmentData(data as unknown as Buffer, IDS);
  expect(open).toThrow(expect.objectContaining({ code: 'recording_corrupt' }));
});

test('a damaged segment with a correct checksum neither crashes nor allocates much memory', () => {
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 50 }), damage(), (rows, damaged) => {
      const block = blockOf(rows);
      const bytes = damaged(createSegmentEncoder(IDS)(block, whole(block)));
      if (bytes.length >= 4) bytes.writeUInt32LE(crc32(bytes.subarray(4)), 0);
      expectCorruptOrValue(() => {
        const segment = openSegmentData(bytes, IDS);
        for (const column of COLUMNS) segment.readColumn(column);
      });
    }),
    { numRuns: 300 },
  );
});

/** Cuts bytes off or changes some; the result always differs from the input. */
function damage(): fc.Arbitrary<(bytes: Buffer) => Buffer> {
  const at = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
  const cut = at.map((where) => (bytes: Buffer) => Buffer.from(bytes.subarray(0, Math.floor(where * bytes.length))));
  const flips = fc.array(fc.tuple(at, fc.integer({ min: 1, max: 255 })), { minLength: 1, maxLength: 1 });
  const flip = flips.map((changes) => (bytes: Buffer) => {
    const copy = Buffer.from(bytes);
    for (const [where, bit] of changes) copy[Math.floor(where * copy.length)]! ^= bit;
    return copy;
  });
  return fc.oneof(cut, flip);
}

function expectCorruptOrValue(work: () => void): void {
  try {
    work();
  } catch (error) {
    expect(error).toMatchObject({ code: 'recording_corrupt' });
  }
}
