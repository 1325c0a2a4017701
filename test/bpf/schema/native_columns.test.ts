/** Tests the C++ loops: correct for every width and place, and never outside the arrays that they are given. */
import fc from 'fast-check';
import { type ColumnArray, createColumnArray } from '../../../bpf/schema/block.ts';
import type { Storage } from '../../../bpf/schema/kinds.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';

const REFUSED = 'an argument has a wrong type or size';

const STORAGES: Storage[] = ['u8', 'u16', 'u32', 'i32', 'u64', 'i64'];

const bytesOf = ({ buffer, byteOffset, byteLength }: ColumnArray) => Buffer.from(buffer, byteOffset, byteLength);

/** A column of random bytes. */
function column(storage: Storage, length: number, seed: number): ColumnArray {
  const values = createColumnArray(storage, length);
  const bytes = bytesOf(values);
  let state = seed | 1;
  for (let i = 0; i < bytes.length; i++) {
    state = Math.imul(state, 0x9e3779b1) + 1;
    bytes[i] = state >>> 24;
  }
  return values;
}

const storage = fc.constantFrom(...STORAGES);
const seed = fc.integer();

describe('gatherFields', () => {
  test('reads each field of each record', () => {
    const records = Buffer.from(column('u8', 5000, 7).buffer);
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 4900 }), { maxLength: 400 }),
        fc.array(fc.tuple(storage, fc.integer({ min: 0, max: 92 })), { maxLength: 5 }),
        (offsets, fields) => {
          const columns = fields.map(([kind]) => createColumnArray(kind, offsets.length + 3));
          const fieldOffsets = Uint32Array.from(fields, ([, offset]) => offset);
          nativeColumns.gatherFields(records, Uint32Array.from(offsets), offsets.length, fieldOffsets, columns);
          columns.forEach((values, f) => {
            const width = values.BYTES_PER_ELEMENT;
            const expected = offsets.map((offset) => {
              const start = offset + fieldOffsets[f]!;
              return [...records.subarray(start, start + width)];
            });
            expect([...bytesOf(values)]).toEqual([...expected.flat(), ...Array(3 * width).fill(0)]);
          });
        },
      ),
    );
  });

  test.each([
    ['a record that ends too early', Uint32Array.of(0, 93), 2, createColumnArray('u64', 2)],
    ['a record far beyond the end', Uint32Array.of(2 ** 32 - 1), 1, createColumnArray('u8', 1)],
    ['more records than offsets', Uint32Array.of(0), 2, createColumnArray('u8', 2)],
    ['more records than values', Uint32Array.of(0, 8), 2, createColumnArray('u8', 1)],
    ['a field for which there is no column', Uint32Array.of(0), 1, undefined],
  ])('refuses %s', (_, offsets, count, values) => {
    const columns = values ? [values] : [];
    expect(() => nativeColumns.gatherFields(Buffer.alloc(100), offsets, count, Uint32Array.of(0), columns)).toThrow(
      REFUSED,
    );
  });
});

describe('copyValues', () => {
  test('copies a range, also into shared memory', () => {
    fc.assert(
      fc.property(storage, fc.nat(50), fc.nat(50), fc.nat(50), fc.boolean(), (kind, from, count, at, shared) => {
        const source = column(kind, from + count + 2, count);
        const width = source.BYTES_PER_ELEMENT;
        const memory = shared
          ? new SharedArrayBuffer((at + count + 1) * width)
          : new ArrayBuffer((at + count + 1) * width);
        const target = new (source.constructor as Uint8ArrayConstructor)(memory as ArrayBuffer);
        nativeColumns.copyValues(source, from, from + count, target, at);
        const expected = createColumnArray(kind, at + count + 1);
        (expected as Uint8Array).set(source.subarray(from, from + count) as Uint8Array, at);
        expect(bytesOf(target)).toEqual(bytesOf(expected));
      }),
    );
  });

  test.each([
    ['a range that ends beyond the source', 1, 5, 'u16', 0],
    ['a range that ends before it begins', 3, 2, 'u16', 0],
    ['a negative place', -1, 2, 'u16', 0],
    ['a target that is too short', 0, 4, 'u16', 7],
    ['a target of another width', 0, 4, 'u32', 0],
  ] as const)('refuses %s', (_, from, to, kind, at) => {
    const copy = () => nativeColumns.copyValues(createColumnArray('u16', 4), from, to, createColumnArray(kind, 10), at);
    expect(copy).toThrow(REFUSED);
  });
});

describe('pickValues', () => {
  const picks = fc.record({
    kind: storage,
    length: fc.integer({ min: 1, max: 300 }),
    seed,
    delta: fc.boolean(),
    constant: fc.boolean(),
    places: fc.array(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), { maxLength: 20 }),
  });

  test('returns the values at these rows, or reports that they depend on others', () => {
    fc.assert(
      fc.property(picks, ({ kind, length, seed, delta, constant, places }) => {
        const values = column(kind, length, seed);
        if (constant) bytesOf(values).fill(seed & 0xff);
        const output = Buffer.alloc(10 + values.byteLength);
        const isDelta = delta && values.BYTES_PER_ELEMENT === 8;
        const encoded = output.subarray(0, nativeColumns.encodeColumn(values, isDelta, output, 0));
        const rows = Uint32Array.from(places, (place) => Math.floor(place * length));
        const targets = Uint32Array.from(places, (_, i) => places.length - i);
        const target = createColumnArray(kind, places.length + 1);
        const picked = nativeColumns.pickValues(encoded, length, rows, target, targets);
        const isConstant = values.every((value) => value === values[0]);
        expect(picked).toBe(!isDelta || isConstant);
        if (picked) expect(places.map((_, i) => target[targets[i]!])).toEqual(places.map((_, i) => values[rows[i]!]));
      }),
    );
  });

  test('a count that overflows in bytes is refused', () => {
    const pick = () =>
      nativeColumns.pickValues(
        Buffer.from([8, 0xff]),
        2 ** 61,
        Uint32Array.of(9),
        createColumnArray('u64', 1),
        Uint32Array.of(0),
      );
    expect(pick()).toBeUndefined();
  });

  test('damaged bytes are reported, or are other values', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), storage, fc.nat(20), (bytes, kind, length) => {
        const rows = Uint32Array.from({ length }, (_, i) => i);
        const picked = nativeColumns.pickValues(bytes, length, rows, createColumnArray(kind, length), rows);
        expect([true, false, undefined]).toContain(picked);
      }),
      { numRuns: 1000 },
    );
  });

  test.each([
    ['a row beyond the column', Uint32Array.of(4), Uint32Array.of(0)],
    ['a target beyond the array', Uint32Array.of(0), Uint32Array.of(2)],
    ['more rows than targets', Uint32Array.of(0, 1), Uint32Array.of(0)],
  ])('refuses %s', (_, rows, targets) => {
    const pick = () => nativeColumns.pickValues(Buffer.from([0x11, 7]), 4, rows, createColumnArray('u8', 2), targets);
    expect(pick).toThrow(REFUSED);
  });
});

/** A column with few distinct values, ascending rows of it, and values to look for. */
const selections = fc
  .record({
    kind: storage,
    values: fc.array(fc.oneof(fc.bigInt({ min: -3n, max: 5n }), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }))),
    kept: fc.infiniteStream(fc.boolean()),
    ids: fc.array(fc.oneof(fc.nat(5), fc.nat(0xffffffff))),
    bounds: fc.tuple(fc.bigInt({ min: 0n, max: 6n }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
  })
  .map(({ kind, values, kept, ids, bounds }) => {
    const column = createColumnArray(kind, values.length);
    const bits = column.BYTES_PER_ELEMENT * 8;
    const isBig = bits === 64;
    for (const [row, value] of values.entries()) {
      const fitted = kind === 'i64' || kind === 'i32' ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
      if (isBig) (column as BigUint64Array)[row] = fitted;
      else (column as Uint32Array)[row] = Number(fitted);
    }
    const rows = Uint32Array.from([...values.keys()].filter(() => kept.next().value));
    const sorted = Uint32Array.from(new Set(ids)).sort();
    const [min, max] = bounds[0] < bounds[1] ? bounds : ([bounds[1], bounds[0]] as const);
    const unsignedAt = (row: number) => BigInt.asUintN(bits, BigInt(column[row]!));
    return { column, rows, sorted, min, max, unsignedAt };
  });

describe('selection of rows', () => {
  test('keeps the rows whose values are within the bounds, in their order', () => {
    fc.assert(
      fc.property(selections, ({ column, rows, min, max, unsignedAt }) => {
        const expected = [...rows].filter((row) => unsignedAt(row) >= min && unsignedAt(row) <= max);
        const count = nativeColumns.keepRowsWithin(column, min, max, rows, rows.length);
        expect([...rows.subarray(0, count)]).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });

  test('keeps the rows whose values are in the list, and no row after the count', () => {
    fc.assert(
      fc.property(selections, fc.nat(), ({ column, rows, sorted, unsignedAt }, cut) => {
        const before = rows.slice();
        const count = cut % (rows.length + 1);
        const isIn = (row: number) => [...sorted].some((id) => BigInt(id) === unsignedAt(row));
        const kept = nativeColumns.keepSortedRows(column, sorted, rows, count);
        expect([...rows.subarray(0, kept)]).toEqual([...before.subarray(0, count)].filter(isIn));
        expect(rows.subarray(count)).toEqual(before.subarray(count));
      }),
      { numRuns: 500 },
    );
  });

  test('marks the places of the values in the list', () => {
    fc.assert(
      fc.property(selections, fc.boolean(), ({ column, sorted, unsignedAt }, elsewhere) => {
        const places = elsewhere
          ? Uint32Array.from({ length: column.length }, (_, row) => column.length - row)
          : undefined;
        const marks = new Uint8Array(column.length + 1);
        const expected = new Uint8Array(column.length + 1);
        for (let row = 0; row < column.length; row++) {
          if ([...sorted].some((id) => BigInt(id) === unsignedAt(row))) expected[places ? places[row]! : row] = 1;
        }
        nativeColumns.markSortedRows(column, sorted, places, marks);
        expect(marks).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });

  test('counts, places and lists the rows of each type', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300, max: 5 }), fc.nat(255), fc.nat(9), (types, extreme, room) => {
        if (types.length > 0) types[0] = extreme;
        const [counts, same] = [new Uint32Array(256), new Uint32Array(256)];
        const places = new Uint32Array(types.length + 1).fill(7);
        nativeColumns.placeRows(types, counts, undefined);
        nativeColumns.placeRows(types, same, places);
        const rowsOf = (type: number) => [...types.keys()].filter((row) => types[row] === type);
        expect([...counts]).toEqual(Array.from({ length: 256 }, (_, type) => rowsOf(type).length));
        expect(same).toEqual(counts);
        expect([...places]).toEqual([...Array.from(types, (type, row) => rowsOf(type).indexOf(row)), 7]);
        const rows = new Uint32Array(room);
        expect(nativeColumns.rowsOfType(types, extreme, rows)).toBe(rowsOf(extreme).length);
        expect([...rows.subarray(0, rowsOf(extreme).length)]).toEqual(rowsOf(extreme).slice(0, room));
      }),
      { numRuns: 500 },
    );
  });

  test('sorts rows by time and row, whether few are out of order or all', () => {
    const times = fc.array(fc.oneof(fc.bigInt({ min: 0n, max: 9n }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })), {
      maxLength: 400,
      size: 'max',
    });
    fc.assert(
      fc.property(
        times,
        fc.constantFrom('as given', 'ascending', 'backwards'),
        fc.boolean(),
        (given, order, descending) => {
          const column = BigUint64Array.from(given);
          if (order !== 'as given') column.sort();
          if (order === 'backwards') column.reverse();
          const rows = Uint32Array.from(column.keys());
          const sorted = new BigUint64Array(column.length);
          const byTime = (a: number, b: number) => (column[a]! < column[b]! ? -1 : column[a]! > column[b]! ? 1 : a - b);
          const expected = [...rows].sort(byTime);
          if (descending) expected.reverse();
          nativeColumns.sortRows(column, rows, descending, sorted);
          expect([...rows]).toEqual(expected);
          expect([...sorted]).toEqual(expected.map((row) => column[row]!));
        },
      ),
      { numRuns: 300 },
    );
  });

  test('scatters values of every width', () => {
    fc.assert(
      fc.property(storage, fc.array(fc.nat(49), { maxLength: 50 }), seed, (kind, from, seed) => {
        const source = column(kind, 50, seed);
        const target = createColumnArray(kind, 51);
        const to = Uint32Array.from(from, (_, i) => 50 - i);
        nativeColumns.scatterValues(source, Uint32Array.from(from), target, to);
        const expected = createColumnArray(kind, 51);
        for (const [i, row] of from.entries()) expected[50 - i] = source[row]!;
        expect(target).toEqual(expected);
      }),
    );
  });

  const u16 = createColumnArray('u16', 4);
  const [inside, outside] = [Uint32Array.of(0, 3), Uint32Array.of(0, 4)];
  test.each([
    ['a row beyond the values', () => nativeColumns.keepRowsWithin(u16, 0n, 1n, outside, 2)],
    ['a count beyond the rows', () => nativeColumns.keepRowsWithin(u16, 0n, 1n, inside, 3)],
    ['bounds in the wrong order', () => nativeColumns.keepRowsWithin(u16, 2n, 1n, inside, 2)],
    ['a negative bound', () => nativeColumns.keepRowsWithin(u16, -1n, 1n, inside, 2)],
    ['a listed row beyond the values', () => nativeColumns.keepSortedRows(u16, inside, outside, 2)],
    [
      'a mark beyond the marks',
      () => nativeColumns.markSortedRows(u16, inside, Uint32Array.of(0, 1, 2, 4), new Uint8Array(4)),
    ],
    ['counts of too few types', () => nativeColumns.placeRows(new Uint8Array(4), new Uint32Array(255), undefined)],
    ['fewer places than rows', () => nativeColumns.placeRows(new Uint8Array(4), new Uint32Array(256), inside)],
    ['a type beyond all types', () => nativeColumns.rowsOfType(new Uint8Array(4), 256, inside)],
    ['fewer marks than values', () => nativeColumns.markSortedRows(u16, inside, undefined, new Uint8Array(3))],
    ['fewer rows than values', () => nativeColumns.markSortedRows(u16, inside, inside, new Uint8Array(4))],
    [
      'a time beyond the times',
      () => nativeColumns.sortRows(new BigUint64Array(4), outside, false, new BigUint64Array(2)),
    ],
    [
      'fewer results than rows',
      () => nativeColumns.sortRows(new BigUint64Array(4), inside, false, new BigUint64Array(1)),
    ],
    ['a target beyond the array', () => nativeColumns.scatterValues(u16, inside, new Uint16Array(4), outside)],
    ['a source beyond the array', () => nativeColumns.scatterValues(u16, outside, new Uint16Array(9), inside)],
    ['values of another width', () => nativeColumns.scatterValues(u16, inside, new Uint32Array(4), inside)],
  ])('refuses %s', (_, run) => {
    expect(run).toThrow(REFUSED);
  });
});

describe('frames', () => {
  test('are decoded, and nothing else is', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 500 }), fc.nat(9), fc.nat(499), (input, offset, at) => {
        const output = Buffer.alloc(1000, 0xaa);
        const bytes = nativeColumns.compressFrame(input, output, offset);
        const frame = output.subarray(offset, offset + bytes);
        expect(output.subarray(0, offset).every((byte) => byte === 0xaa)).toBe(true);
        const back = new Uint8Array(input.length);
        expect(nativeColumns.decompressFrame(frame, back)).toBe(true);
        expect(back).toEqual(input);
        expect(nativeColumns.decompressFrame(frame, new Uint8Array(input.length + 1))).toBe(false);
        expect(nativeColumns.decompressFrame(frame.subarray(0, at % bytes), back)).toBe(false);
      }),
    );
  });

  test('a frame without enough space is not written', () => {
    const input = column('u8', 400, 3) as Uint8Array;
    expect(nativeColumns.compressFrame(input, Buffer.alloc(300), 0)).toBe(0);
    expect(() => nativeColumns.compressFrame(input, Buffer.alloc(300), 301)).toThrow(REFUSED);
  });

  test('several frames, skippable ones and those of the first versions are refused', () => {
    const output = Buffer.alloc(200);
    const one = output.subarray(0, nativeColumns.compressFrame(Buffer.alloc(40, 'abcd'), output, 0));
    const skippable = Buffer.from('502a4d1804000000aaaaaaaa', 'hex');
    const version7 = Buffer.from(one);
    version7.writeUInt32LE(0xfd2fb527, 0);
    expect(nativeColumns.decompressFrame(one, new Uint8Array(40))).toBe(true);
    for (const frame of [Buffer.concat([one, one]), Buffer.concat([skippable, one]), skippable, version7]) {
      for (const bytes of [0, 40, 80]) expect(nativeColumns.decompressFrame(frame, new Uint8Array(bytes))).toBe(false);
    }
  });

  test('other bytes are not a frame', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        expect(nativeColumns.decompressFrame(bytes, new Uint8Array(50))).toBe(false);
      }),
    );
  });
});

test.each([
  ['gatherFields', [Buffer.alloc(8), new Uint8Array(1), 1, Uint32Array.of(0), []]],
  ['copyValues', [[1, 2], 0, 1, createColumnArray('u8', 1), 0]],
  ['encodeColumn', [createColumnArray('u8', 0), false, Buffer.alloc(50), 0]],
  ['encodeColumn', [createColumnArray('u8', 8), false, Buffer.alloc(17), 0]],
  ['encodeColumn', [new Float64Array(2), false, Buffer.alloc(50), 0]],
  ['encodeColumn', [createColumnArray('u8', 8), 1, Buffer.alloc(50), 0]],
  ['decodeColumn', [createColumnArray('u16', 4), createColumnArray('u8', 4)]],
  ['decodeColumn', [Buffer.alloc(4), new DataView(new ArrayBuffer(8))]],
  ['pickValues', [Buffer.alloc(4), 2, [0], createColumnArray('u8', 4), [0]]],
  ['compressFrame', ['text', Buffer.alloc(100), 0]],
  ['decompressFrame', [Buffer.alloc(10), undefined]],
] as const)('%s refuses arguments of the wrong type', (name, args) => {
  expect(() => (nativeColumns[name] as (...args: unknown[]) => unknown)(...args)).toThrow(REFUSED);
});
