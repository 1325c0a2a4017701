/** Tests FORMAT Native: any columns come back in any chunks; damaged bytes are an error, never a crash or a wait. */
import fc from 'fast-check';
import { ByteReader } from '../../../../agent/clickhouse/native/byte_reader.ts';
import { decodeBlocks } from '../../../../agent/clickhouse/native/decode.ts';
import { type Column, createBlockEncoder } from '../../../../agent/clickhouse/native/encode.ts';
import { NativeError } from '../../../../agent/clickhouse/native/errors.ts';
import { createTextTable, type Texts } from '../../../../agent/clickhouse/native/texts.ts';
import { formatTypeName, parseType } from '../../../../agent/clickhouse/native/types.ts';
import { anyValue, columnOf, TYPE_NAMES, textsOf, type Value, valuesOf } from '../../../clickhouse/columns.ts';
import { times } from '../../../repeats.ts';

async function* inChunks(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let [at, i] = [0, 0]; at < bytes.length; i++) {
    const size = sizes[i % sizes.length]!;
    // A copy, so that nothing reads beyond its chunk.
    yield Uint8Array.from(bytes.subarray(at, at + size));
    at += size;
  }
}

async function decoded(bytes: Buffer, sizes: readonly number[] = [bytes.length || 1]): Promise<Value[][][]> {
  const blocks: Value[][][] = [];
  for await (const { rowCount, columns } of decodeBlocks(inChunks(bytes, sizes)))
    blocks.push([...columns.values()].map((column) => valuesOf(column, rowCount)));
  return blocks;
}

interface Table {
  typeName: string;
  values: Value[];
}

const anyBlock: fc.Arbitrary<Table[]> = fc
  .tuple(fc.nat({ max: 40 }), fc.array(fc.constantFrom(...TYPE_NAMES), { minLength: 1, maxLength: 6 }))
  .chain(([rowCount, typeNames]) =>
    fc.tuple(
      ...typeNames.map((typeName) =>
        fc
          .array(anyValue(parseType(typeName)), { minLength: rowCount, maxLength: rowCount })
          .map((values) => ({ typeName, values })),
      ),
    ),
  );

const columnsOf = (block: readonly Table[]): Column[] =>
  block.map(({ typeName, values }, i) => columnOf(`c${i}`, typeName, values));

test('any blocks come back, in chunks of any size', async () => {
  const encoder = createBlockEncoder();
  const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 10 });
  await fc.assert(
    fc.asyncProperty(fc.array(anyBlock, { maxLength: 3 }), sizes, async (blocks, sizes) => {
      const bytes = blocks.map((block) => encoder.encode(columnsOf(block), block[0]!.values.length));
      expect(await decoded(Buffer.concat(bytes), sizes)).toEqual(blocks.map((block) => block.map((one) => one.values)));
    }),
    { numRuns: times(100) },
  );
});

describe('bytes that Debian’s server of 18.16 writes', () => {
  const golden: readonly [string, string, string, Value[]][] = [
    [
      'UInt64',
      'a',
      `0103016106${hex('UInt64')}0100000000000000ffffffffffffffff0000000000000000`,
      [1n, 2n ** 64n - 1n, 0n],
    ],
    ['Int8', 'i8', `010102693804${hex('Int8')}ff`, [-1n]],
    ['DateTime', 'd', `0101016408${hex('DateTime')}05000000`, [5n]],
    ['FixedString(4)', 'f', `010101660e${hex('FixedString(4)')}61620000`, ['61620000']],
    [
      'LowCardinality(String)',
      'a',
      `0104016116${hex('LowCardinality(String)')}010000000000000000060000000000000400000000000000` +
        '00013001310132040000000000000001020301',
      ['0', '1', '2', '0'],
    ],
    [
      'Array(UInt64)',
      'a',
      `010301610d${hex('Array(UInt64)')}020000000000000002000000000000000300000000000000` +
        '010000000000000002000000000000000300000000000000',
      [[1n, 2n], [], [3n]],
    ],
    [
      'Array(String)',
      'g',
      `010301670d${hex('Array(String)')}00000000000000000100000000000000030000000000000001610000`,
      [[], ['a'], ['', '']],
    ],
    [
      'Array(FixedString(16))',
      'b',
      `0102016216${hex('Array(FixedString(16))')}00000000000000000100000000000000${hex('0123456789abcdef')}`,
      [[], [hex('0123456789abcdef')]],
    ],
  ];

  test.each(golden)('%s', async (typeName, name, bytes, values) => {
    expect(
      createBlockEncoder()
        .encode([columnOf(name, typeName, values)], values.length)
        .toString('hex'),
    ).toBe(bytes);
    expect(await decoded(Buffer.from(bytes, 'hex'))).toEqual([[values]]);
  });

  function hex(text: string): string {
    return Buffer.from(text).toString('hex');
  }
});

describe('a dictionary', () => {
  test.each([
    [255, 1],
    [256, 2],
    [65_535, 2],
    [65_536, 4],
  ])('of %d texts beside the empty one has indexes of %d bytes', async (count, width) => {
    const values = Array.from({ length: count }, (_, i) => `t${i}`);
    const bytes = createBlockEncoder().encode([columnOf('a', 'LowCardinality(String)', values)], count);
    expect(bytes.subarray(-width * count).readUIntLE(0, width)).toBe(1);
    expect(bytes.subarray(-width).readUIntLE(0, width)).toBe(count);
    expect(await decoded(bytes)).toEqual([[values]]);
  });

  test('has only the texts that the rows use, each once, and none of an earlier block', async () => {
    const encoder = createBlockEncoder();
    const lengthOf = (texts: Texts, count: number) =>
      encoder.encode([{ name: 'a', type: parseType('LowCardinality(String)'), values: texts }], count).length;
    const first = lengthOf(textsOf(['b', 'a', 'b', 'b', '']), 5);
    expect(lengthOf(textsOf(['a', 'b', 'c', 'd', 'e', 'f']), 6)).toBe(first + 9);
    expect(lengthOf(textsOf(['b', 'a', 'b', 'b', '']), 5)).toBe(first);
  });

  test('with the same text under two ids is still read', async () => {
    const texts = { table: createTextTable(['a', 'a', 'b']), ids: Uint8Array.of(0, 1, 2) };
    const type = parseType('LowCardinality(String)');
    expect(await decoded(createBlockEncoder().encode([{ name: 'x', type, values: texts }], 3))).toEqual([
      [['a', 'a', 'b']],
    ]);
  });
});

describe('columns that do not fit are refused before a byte is sent', () => {
  const texts = { table: createTextTable(['a', 'longer']), ids: Uint8Array.of(0, 2) };
  test.each([
    ['an id without a text', 'String', texts],
    ['an id without a text in a dictionary', 'LowCardinality(String)', texts],
    ['an id without a text of fixed length', 'FixedString(8)', texts],
    ['a text above a fixed length', 'FixedString(4)', { ...texts, ids: Uint8Array.of(0, 1) }],
    ['an array of another type', 'UInt64', new BigInt64Array(2)],
    ['too few numbers', 'UInt8', new Uint8Array(1)],
    ['too few bytes', 'FixedString(4)', new Uint8Array(7)],
    ['too few ids', 'String', { ...texts, ids: Uint8Array.of(0) }],
    ['numbers for texts', 'String', new Uint8Array(2)],
    ['texts for numbers', 'UInt8', texts],
    ['texts for lists', 'Array(String)', texts],
    ['lists for texts', 'String', { ends: Uint32Array.of(1, 1), items: texts }],
    ['lists that go back', 'Array(UInt64)', { ends: Uint32Array.of(1, 0), items: new BigUint64Array(1) }],
    ['lists beyond their items', 'Array(UInt64)', { ends: Uint32Array.of(1, 2), items: new BigUint64Array(1) }],
  ])('%s', (_, typeName, values) => {
    const encoder = createBlockEncoder();
    const column = { name: 'a', type: parseType(typeName), values } as Column;
    expect(() => encoder.encode([column], 2)).toThrow(expect.objectContaining({ name: 'EncodeError' }));
    // What was written before the error is not part of the next block.
    const good = [columnOf('b', 'LowCardinality(String)', ['a'])];
    expect(encoder.encode(good, 1)).toEqual(createBlockEncoder().encode(good, 1));
  });
});

describe('malformed bytes', () => {
  const all = TYPE_NAMES.map((typeName, i) => {
    const values = fc.sample(fc.array(anyValue(parseType(typeName)), { minLength: 7, maxLength: 7 }), {
      seed: i,
      numRuns: 1,
    });
    return columnOf(`c${i}`, typeName, values[0]!);
  });
  const bytes = createBlockEncoder().encode(all, 7);

  test('that end early are an error, wherever they end', async () => {
    for (let length = 1; length < bytes.length; length++)
      await expect(decoded(bytes.subarray(0, length), [100])).rejects.toBeInstanceOf(NativeError);
  });

  test('with any bytes changed are an error, or other values', async () => {
    const flips = fc.array(fc.tuple(fc.nat({ max: bytes.length - 1 }), fc.integer({ min: 1, max: 255 })), {
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(flips, async (flips) => {
        const damaged = Buffer.from(bytes);
        for (const [at, mask] of flips) damaged[at]! ^= mask;
        await decoded(damaged, [1000]).catch((error) => {
          if (!(error instanceof NativeError)) throw error;
        });
      }),
      { numRuns: times(500) },
    );
  });

  test.each([
    ['a count without end', 'ff'.repeat(20), /number of its columns/],
    ['more rows than a block has', '01ffffff7f', /number of its rows/],
    ['an unknown type', `010101610b${Buffer.from('Nullable(X)').toString('hex')}`, /type Nullable\(X\)/],
    ['a text of many gigabytes', `0101016106${Buffer.from('String').toString('hex')}ffffffff0f`, /text is longer/],
    ['a column twice', `0201${'01610555496e743801'.repeat(2)}`, /column a twice/],
  ])('%s', async (_, hex, message) => {
    await expect(decoded(Buffer.from(hex, 'hex'))).rejects.toThrow(message);
  });

  test.each(['FixedString(4096)', 'UInt64', 'String', 'LowCardinality(String)', 'Array(UInt64)'])(
    'of a block of %s that never ends are an error, not memory without end',
    async (typeName) => {
      const head = createBlockEncoder().encode([columnOf('a', typeName, [])], 0);
      // The same columns with as many rows as a block may have.
      const start = Buffer.concat([Buffer.of(1, 0x80, 0x80, 0x10), head.subarray(2)]);
      const dictionary = Buffer.from('01000000000000000006000000000000ffff3f0000000000'.padEnd(48, '0'), 'hex');
      let bytes = 0;
      async function* endless() {
        yield start;
        if (typeName === 'LowCardinality(String)') yield dictionary;
        for (;;) {
          bytes += 65_536;
          yield Buffer.alloc(65_536, /^(Fixed)?String/.test(typeName) ? 100 : 0);
        }
      }
      const blocks = decodeBlocks(endless(), { blockBytesMax: 500_000 });
      await expect(blocks.next()).rejects.toThrow(/a block is too large|a list has a wrong end/);
      expect(bytes).toBeLessThan(4_000_000);
    },
  );

  test('show the end of what arrived, where a server says what went wrong', async () => {
    const message = "Code: 395, e.displayText() = DB::Exception: Value passed to 'throwIf' function is non zero";
    const answer = Buffer.concat([bytes, bytes.subarray(0, 99), Buffer.from(message)]);
    const error = await decoded(answer, [64]).catch((error) => error as NativeError);
    expect((error as NativeError).tail.toString('latin1')).toContain(message);
  });
});

test('a reader that stops early ends the source', async () => {
  let ended = false;
  async function* endless() {
    try {
      const block = createBlockEncoder().encode([columnOf('a', 'UInt8', [1n])], 1);
      for (;;) yield block;
    } finally {
      ended = true;
    }
  }
  for await (const { rowCount } of decodeBlocks(endless())) {
    expect(rowCount).toBe(1);
    break;
  }
  expect(ended).toBe(true);
});

test.each(TYPE_NAMES)('the name of %s is the one that it was made from', (name) => {
  expect(formatTypeName(parseType(name))).toBe(name);
});

test("the last 8 KiB of an answer are kept for the server's message, in whatever chunks they come", async () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 9000 }), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(fc.nat(40_000), sizes, async (length, chunks) => {
      const bytes = Buffer.from(Array.from({ length }, (_, i) => (i * 7919) >> 5));
      const tail = await new ByteReader(inChunks(bytes, chunks)).readTail();
      expect(tail.equals(bytes.subarray(-8192))).toBe(true);
    }),
    { numRuns: times(50) },
  );
});
