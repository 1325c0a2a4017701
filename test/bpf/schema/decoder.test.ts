/**
 * Tests frames -> columns. Records of every type with random values, including the extremes, come back value by value
 * over several blocks; everything else in the buffer is counted, and nothing outside the frames is read.
 */
import fc from 'fast-check';
import type { Block } from '../../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import {
  type Accept,
  BLOCK_ROWS_MAX,
  createDecoder,
  type Decoder,
  REFERENCE_FIELDS,
  recordOffset,
} from '../../../bpf/schema/decoder.ts';
import { ORIGIN_SIZE, ORIGIN_SLOTS, type RecordDefinition } from '../../../bpf/schema/define.ts';
import { DEFINITIONS } from '../../../bpf/schema/definitions.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import type { CType } from '../../../bpf/schema/kinds.ts';
import { framed, recordBytes, type Values } from './records.ts';

const [sysWrite, blockIo] = EVENTS;
const PLAIN_COLUMNS = COLUMNS.filter(({ source }) => source === 'value');
const LOSSLESS_TYPES: Partial<Record<CType, [bigint, bigint]>> = {
  __u16: [0n, 2n ** 16n - 1n],
  __u32: [0n, 2n ** 32n - 1n],
  __s32: [-(2n ** 31n), 2n ** 31n - 1n],
  __u64: [0n, 2n ** 64n - 1n],
  __s64: [-(2n ** 63n), 2n ** 63n - 1n],
};
const everything: Accept = () => true;

interface Sample {
  event: RecordDefinition;
  values: Record<string, bigint>;
}

const sample: fc.Arbitrary<Sample> = fc.constantFrom(...EVENTS).chain((event) =>
  fc.record({
    event: fc.constant(event as RecordDefinition),
    values: fc.record(
      Object.fromEntries(
        event.layout
          .filter(({ name, field }) => name !== 'event_type' && LOSSLESS_TYPES[field.kind.c.type])
          .map(({ name, field }) => {
            // A label is 32 bits in the record and 16 in its column.
            const [min, max] = field.kind.labels ? [0n, 0xffffn] : LOSSLESS_TYPES[field.kind.c.type]!;
            return [name, fc.oneof(fc.constantFrom(min, max, 0n), fc.bigInt({ min, max }))];
          }),
      ),
    ),
  }),
);

/** A request's record has any number of origins. */
function bytesOf({ event, values }: Sample): Uint8Array {
  const origins = Array.from({ length: Number((values.cgroup_id ?? 0n) % BigInt(ORIGIN_SLOTS + 1)) }, () => ({}));
  return recordBytes(event, (event.size > event.sizeMin ? { ...values, origins } : values) as Values);
}

/** The frames at `start` of a buffer, with other bytes before and after them. */
function bufferOf(frames: Uint8Array, start = 0, behind = 0): Uint8Array {
  const buffer = new Uint8Array(start + frames.length + behind).fill(0xee);
  buffer.set(frames, start);
  return buffer;
}

interface Decoded {
  rows: { type: number; values: Record<string, bigint> }[];
  blocks: number[];
  badRecords: number;
}

/** All blocks of the frames, as rows of plain values. */
function decodeAll(decoder: Decoder, buffer: Uint8Array, start: number, end: number, accept = everything): Decoded {
  const decoded: Decoded = { rows: [], blocks: [], badRecords: 0 };
  for (let at = start; at < end; ) {
    const next = decoder.decode(buffer, at, end, accept);
    expect(next).toBeGreaterThan(at);
    expect(next).toBeLessThanOrEqual(end);
    at = next;
    decoded.rows.push(...rowsOf(decoder.decoded.block));
    decoded.blocks.push(decoder.decoded.block.rowCount);
  }
  decoded.badRecords = decoder.takeBadRecords();
  return decoded;
}

function rowsOf(block: Block): Decoded['rows'] {
  const types = block.columns.get('event_type')!;
  const places = new Map<number, number>();
  const rows = Array.from({ length: block.rowCount }, (_, row) => {
    const type = Number(types[row]);
    const place = places.get(type) ?? 0;
    places.set(type, place + 1);
    const own = PLAIN_COLUMNS.filter(({ eventType }) => eventType === 0 || eventType === type);
    const read = ({ name, eventType }: Column) => BigInt(block.columns.get(name)![eventType === 0 ? row : place]!);
    return { type, values: Object.fromEntries(own.map((column) => [column.field, read(column)])) };
  });
  for (const { id } of EVENTS) expect(block.typeCounts[id]).toBe(places.get(id) ?? 0);
  return rows;
}

function expectedRow({ event, values }: Sample) {
  const own = PLAIN_COLUMNS.filter(({ eventType }) => eventType === 0 || eventType === event.id);
  const written: Record<string, bigint> = { ...values, event_type: BigInt(event.id) };
  return { type: event.id, values: Object.fromEntries(own.map(({ field }) => [field, written[field]!])) };
}

test('every plain value is decoded, wherever the frames lie in the buffer', () => {
  const decoder = createDecoder();
  fc.assert(
    fc.property(fc.array(sample, { maxLength: 40 }), fc.nat(9), fc.nat(40), (samples, start, behind) => {
      const frames = framed(samples.map(bytesOf));
      const buffer = bufferOf(frames, start * 8, behind);
      const { rows, badRecords } = decodeAll(decoder, buffer, start * 8, start * 8 + frames.length);
      expect(rows).toEqual(samples.map(expectedRow));
      expect(badRecords).toBe(0);
    }),
  );
});

test('records that do not fit into one block continue in the next, in order', () => {
  const decoder = createDecoder();
  const pattern = fc.array(sample, { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(pattern, fc.integer({ min: BLOCK_ROWS_MAX - 1, max: 2 * BLOCK_ROWS_MAX + 7 }), (samples, count) => {
      const expected = samples.map(expectedRow);
      const records = samples.map(bytesOf);
      const frames = framed(Array.from({ length: count }, (_, i) => records[i % records.length]!));
      const { rows, blocks } = decodeAll(decoder, frames, 0, frames.length);
      expect(rows.length).toBe(count);
      expect(blocks.slice(0, -1).every((size) => size === BLOCK_ROWS_MAX)).toBe(true);
      const wrong = rows.findIndex((row, i) => !sameRow(row, expected[i % expected.length]!));
      expect(wrong).toBe(-1);
    }),
    { numRuns: 6 },
  );
});

/** Compares rows without expect(), which would take a minute for many thousand rows. */
function sameRow(a: Decoded['rows'][number], b: Decoded['rows'][number]): boolean {
  return a.type === b.type && Object.keys(b.values).every((name) => a.values[name] === b.values[name]);
}

test('a full block ends with its last record', () => {
  const decoder = createDecoder();
  const record = recordBytes(sysWrite);
  const frames = framed(Array<Uint8Array>(BLOCK_ROWS_MAX).fill(record));
  expect(decoder.decode(frames, 0, frames.length, everything)).toBe(frames.length);
  expect(decoder.decoded.block.rowCount).toBe(BLOCK_ROWS_MAX);
  expect(decoder.decode(frames, 0, 0, everything)).toBe(0);
  expect(decoder.decoded.block.rowCount).toBe(0);
  expect(Math.max(...decoder.decoded.block.typeCounts)).toBe(0);
});

test('the offsets point to the records, over all rows and by type', () => {
  const decoder = createDecoder();
  const frames = framed([recordBytes(sysWrite), recordBytes(blockIo), recordBytes(sysWrite)]);
  decoder.decode(frames, 0, frames.length, everything);
  const { recordOffsets, typeRecordOffsets } = decoder.decoded;
  const [first, second, third] = [8, 8 + sysWrite.size + 8, 8 + sysWrite.size + 8 + blockIo.size + 8];
  expect([...recordOffsets.subarray(0, 3)]).toEqual([first, second, third]);
  expect([...typeRecordOffsets[sysWrite.id]!.subarray(0, 2)]).toEqual([first, third]);
  expect(typeRecordOffsets[blockIo.id]![0]).toBe(second);
});

test('every field is either plain or resolved by the agent', () => {
  const resolved = REFERENCE_FIELDS.flatMap(({ columns }) => columns.map(({ name }) => name));
  const plain = PLAIN_COLUMNS.map(({ name }) => name);
  expect([...resolved, ...plain].toSorted()).toEqual(COLUMNS.map(({ name }) => name).toSorted());
});

describe('filter', () => {
  test('only accepted records get a row', () => {
    const decoder = createDecoder();
    const wanted = (words: Uint32Array, offset: number) => words[(offset + recordOffset('pid')) >>> 2]! % 3 === 0;
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 40 }), (samples) => {
        const frames = framed(samples.map(bytesOf));
        const { rows, badRecords } = decodeAll(decoder, frames, 0, frames.length, wanted);
        expect(rows).toEqual(samples.map(expectedRow).filter(({ values }) => values.pid! % 3n === 0n));
        expect(badRecords).toBe(0);
      }),
    );
  });

  test('a refused record takes no space in the block', () => {
    const decoder = createDecoder();
    const frames = framed(
      Array.from({ length: 2 * BLOCK_ROWS_MAX }, (_, i) => recordBytes(sysWrite, { pid: i % 2, tid: i })),
    );
    const odd: Accept = (words, offset) => words[(offset + recordOffset('pid')) >>> 2] === 1;
    const { blocks, rows } = decodeAll(decoder, frames, 0, frames.length, odd);
    expect(blocks).toEqual([BLOCK_ROWS_MAX]);
    expect(rows.at(-1)!.values.tid).toBe(BigInt(2 * BLOCK_ROWS_MAX - 1));
  });

  test('is not called for malformed records', () => {
    const asked: number[] = [];
    const frames = framed([new Uint8Array(24), recordBytes(sysWrite)]);
    createDecoder().decode(frames, 0, frames.length, (_, offset) => asked.push(offset) > 0);
    expect(asked).toEqual([40]);
  });
});

describe('malformed records', () => {
  const good = recordBytes(sysWrite, { pid: 7 });

  test.each<[string, Uint8Array]>([
    ['an empty record', new Uint8Array()],
    ['type 0', recordBytes(sysWrite, { event_type: 0 })],
    ['a type beyond the last', recordBytes(sysWrite, { event_type: 3 })],
    ['the largest type', recordBytes(sysWrite, { event_type: 0xffff })],
    ["another type's size", recordBytes(sysWrite, { event_type: blockIo.id })],
    ['a byte too few', good.subarray(0, good.length - 1)],
    ['a word too many', Uint8Array.from([...good, 0, 0, 0, 0, 0, 0, 0, 0])],
    ['a request without a part of an origin', recordBytes(blockIo, { origins: [{}] }).subarray(0, -8)],
    [
      'a request of more origins than there are slots',
      Uint8Array.from([...recordBytes(blockIo), ...new Uint8Array(ORIGIN_SIZE)]),
    ],
    ['a request without its fields', recordBytes(blockIo, { origins: [] }).subarray(0, -32)],
    ['only the type', good.subarray(0, 2)],
    ...DEFINITIONS.map((definition) => [`a ${definition.name}`, recordBytes(definition)] as [string, Uint8Array]),
  ])('%s is counted, and the neighbouring records are kept', (_, bad) => {
    const decoder = createDecoder();
    for (const records of [[bad], [good, bad, good], [bad, bad, good], [good, bad]]) {
      const frames = framed(records);
      const { rows, badRecords } = decodeAll(decoder, frames, 0, frames.length);
      expect(rows.map(({ values }) => values.pid)).toEqual(records.filter((record) => record === good).map(() => 7n));
      expect(badRecords).toBe(records.filter((record) => record === bad).length);
    }
  });

  test('are reported once', () => {
    const decoder = createDecoder();
    decoder.decode(framed([new Uint8Array(8)]), 0, 16, everything);
    expect(decoder.takeBadRecords()).toBe(1);
    expect(decoder.takeBadRecords()).toBe(0);
  });

  test.each([0x20, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_fff8, 0xffff_ffff])(
    'a frame whose length %p exceeds the batch is counted and ends the batch',
    (length) => {
      const decoder = createDecoder();
      const buffer = bufferOf(framed([good, new Uint8Array(8)]));
      const at = 8 + good.length;
      new DataView(buffer.buffer).setUint32(at, length, true);
      expect(decoder.decode(buffer, 0, buffer.length, everything)).toBe(buffer.length);
      expect(decoder.decoded.block.rowCount).toBe(1);
      expect(decoder.takeBadRecords()).toBe(1);
    },
  );

  test('any bytes are decoded to the end, and rows only come from within', () => {
    const decoder = createDecoder();
    const damage = fc.array(fc.tuple(fc.nat(), fc.oneof(fc.constantFrom(0, 1, 2, 0xff), fc.nat(255))));
    fc.assert(
      fc.property(fc.array(sample, { minLength: 1, maxLength: 8 }), damage, fc.nat(20), (samples, hits, cut) => {
        const frames = framed(samples.map(bytesOf));
        for (const [place, byte] of hits) frames[place % frames.length] = byte;
        const end = Math.max(frames.length - cut * 8, 8);
        decodeAll(decoder, bufferOf(frames, 0, 4096), 0, end);
        const { block, recordOffsets } = decoder.decoded;
        const types = block.columns.get('event_type')! as Uint8Array;
        for (let row = 0; row < block.rowCount; row++) {
          const { sizeMin } = EVENTS.find(({ id }) => id === types[row])!;
          expect(recordOffsets[row]! + sizeMin).toBeLessThanOrEqual(end);
        }
      }),
      { numRuns: 500 },
    );
  });
});
