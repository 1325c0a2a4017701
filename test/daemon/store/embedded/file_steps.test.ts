/** Tests that a filter by file lets other work run while it looks at many paths, in scans and in live tails. */
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { type Row, recorded, START } from '../../recorded.ts';

const COUNT = 70_000;
const row = (_: unknown, i: number): Row => ({ at: START - BigInt(COUNT - i), file: `/f/${i}` });

let folder: string;
let store: Recordings;
beforeAll(() => {
  folder = recorded(Array.from({ length: COUNT }, row));
});
beforeEach(() => {
  store = openRecordingStore(folder);
});
afterEach(() => store.close());

test.each([{ files: ['/f/*'] }, { excluded: { files: ['/g/*'] } }])('a scan with %j pauses first', (filter) => {
  for (const isOrdered of [true, false]) {
    const scan = isOrdered ? store.scan({ filter, order: 'asc' }) : store.scanUnordered({ filter });
    const counts = [...scan].map(({ block }) => block.rowCount);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(COUNT);
    // The files are known to the second scan.
    const pauses = counts.findIndex((count) => count > 0);
    if (isOrdered) expect(pauses).toBeGreaterThan(3);
    else expect(pauses).toBe(0);
  }
});

test('arrivals need no pause once their files are looked for', () => {
  const filter = { files: ['/f/*'] };
  expect([...store.lookForFiles(filter)].length).toBeGreaterThan(3);
  expect([...store.lookForFiles(filter)]).toEqual([]);
  const { recordingId, end } = store.extents()[0]!;
  const arrived = store.arrivals({ recordingId, filter, from: end - 10, end, limit: 100 });
  expect(arrived?.scanned.block.rowCount).toBe(10);
});

test('a filter without files pauses for nothing', () => {
  expect([...store.lookForFiles({ services: ['shop'] })]).toEqual([]);
});
