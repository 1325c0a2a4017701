/** Tests which pieces are kept in memory, and that scans return the same with and without them. */
import type { SegmentData } from '../../../../agent/recording/codec/decode_segment.ts';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { openPieceCache } from '../../../../agent/recording/read/segment.ts';
import { recorded, recordingPath, START } from '../../../daemon/recorded.ts';

const MIB = 1 << 20;
const data = (bytes: number) => ({ bytes }) as SegmentData;

describe('pieces', () => {
  test('are kept when they are read a second time', () => {
    const cache = openPieceCache();
    const piece = data(MIB);
    cache.add(7, 1, piece);
    expect(cache.get(7, 1)).toBe(undefined);
    cache.add(7, 1, piece);
    expect(cache.get(7, 1)).toBe(piece);
    expect([cache.get(7, 2), cache.get(8, 1), openPieceCache().get(7, 1)]).toEqual([undefined, undefined, undefined]);
    cache.close();
    expect(cache.get(7, 1)).toBe(undefined);
  });

  test('that were used longest ago make room, and all readers share the memory', () => {
    const [one, other] = [openPieceCache(), openPieceCache()];
    const twice = (cache: typeof one, number: number) => {
      cache.add(number, 1, data(10 * MIB));
      cache.add(number, 1, data(10 * MIB));
    };
    for (let number = 0; number < 6; number++) twice(one, number);
    one.get(0, 1);
    twice(other, 0);
    expect([0, 1, 2].map((number) => one.get(number, 1) !== undefined)).toEqual([true, false, true]);
    expect(other.get(0, 1)).toBeDefined();
    one.close();
    for (let number = 1; number < 6; number++) twice(other, number);
    expect(other.get(0, 1)).toBeDefined();
    other.close();
  });

  test('of a scan that reads each once take no memory', () => {
    const cache = openPieceCache();
    for (let number = 0; number < 20_000; number++) cache.add(number, 1, data(MIB));
    for (let number = 0; number < 20_000; number++) cache.add(number, 1, data(MIB));
    expect(cache.get(19_999, 1)).toBe(undefined);
    cache.close();
  });
});

test('a question that is asked again has the same answer', () => {
  const rows = Array.from({ length: 9000 }, (_, i) => ({
    at: START + BigInt(i),
    duration: BigInt(i % 100),
    pid: 100 + (i % 7),
    ...(i % 3 ? {} : { type: 'block_io' as const }),
  }));
  const reader = openReader(recordingPath(recorded(rows)));
  const ask = () =>
    [...reader.scan({ filter: { pid: 103, minDurationNs: 50n } })].map(({ rowCount, numbers, columns, typeCounts }) => [
      rowCount,
      numbers,
      typeCounts,
      [...columns],
    ]);
  const first = ask();
  expect(first.flat().length).toBeGreaterThan(0);
  for (let i = 0; i < 4; i++) expect(ask()).toEqual(first);
  reader.close();
});
