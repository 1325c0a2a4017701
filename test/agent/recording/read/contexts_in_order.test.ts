/** Tests that contexts are the same in whatever order a reader is asked for them, and while more are recorded. */
import { join } from 'node:path';
import fc from 'fast-check';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { blockOf, START_NS, temporaryFolder, testWriter } from '../fixture.ts';

const COUNT = 3000;

test('a context is found among those that were read along with others, and one that is recorded later, too', () => {
  const folder = temporaryFolder();
  const path = join(folder.path, 'recording.kreplay');
  const writer = testWriter(path);
  const textOf = new Map<number, string>();
  function record(count: number): void {
    const rows = Array.from({ length: count }, () => {
      const transactionId = `tx-${textOf.size}`;
      const context = writer.contextId({ transactionId, traceId: null, spanId: null });
      textOf.set(context, transactionId);
      return { context, timestamp_ns: START_NS };
    });
    writer.append(blockOf(rows));
    writer.flush();
  }
  record(COUNT);
  const ids = [...textOf.keys()];
  const step = fc.tuple(fc.nat(COUNT - 1), fc.integer({ min: 1, max: 700 }), fc.integer({ min: 1, max: 3 }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 8 }), (runs) => {
      const reader = openReader(path);
      for (const [first, length, by] of runs)
        for (let at = first; at < Math.min(first + length, COUNT); at += by)
          expect(reader.context(ids[at]!).transactionId).toBe(textOf.get(ids[at]!));
      reader.close();
    }),
    { numRuns: 40 },
  );
  const reader = openReader(path);
  const next = ids.at(-1)! + 1;
  for (const id of ids.slice(-100)) reader.context(id);
  expect(reader.context(next).transactionId).toBe(null);
  record(10);
  expect(reader.context(next).transactionId).toBe(textOf.get(next));
  reader.close();
  writer.close();
  folder.remove();
});
