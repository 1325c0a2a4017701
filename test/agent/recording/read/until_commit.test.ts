/** Tests that answers are kept until a writer commits, and no longer. */
import { join } from 'node:path';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { isShort, keepUntilCommit } from '../../../../agent/recording/read/sizes.ts';
import { blockOf, START_NS, temporaryFolder, testWriter } from '../fixture.ts';

describe('keepUntilCommit', () => {
  let version = 1;
  const keep = keepUntilCommit(() => version);

  test('asks once for each set of arguments, until the version changes', () => {
    const asked: unknown[] = [];
    const answer = keep((...args: (string | number | bigint | undefined)[]) => asked.push(args));
    const calls = [[], [undefined], ['1'], [1], [1n], ['1', '1'], ['1 1'], ['string 1 1']] as const;
    const first = calls.map((args) => answer(...args));
    expect(first).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(calls.map((args) => answer(...args))).toEqual(first);
    version++;
    expect(calls.map((args) => answer(...args))).toEqual([9, 10, 11, 12, 13, 14, 15, 16]);
  });

  test('keeps no long list, no answer to a long question, and no error', () => {
    let asked = 0;
    const list = keep(() => Array(++asked < 3 ? 101 : 100).fill(0), isShort);
    expect([list().length, list().length, list().length, list().length, asked]).toEqual([101, 101, 100, 100, 3]);
    const long = keep((text: string) => text.length + asked++);
    expect([long('x'.repeat(5000)), long('x'.repeat(5000)), asked]).toEqual([5003, 5004, 5]);
    asked = 3;
    const failing = keep(() => {
      if (++asked === 4) throw new Error('once');
      return asked;
    });
    expect(failing).toThrow('once');
    expect([failing(), failing()]).toEqual([5, 5]);
  });
});

test('a reader that has answered follows what a writer commits', () => {
  const folder = temporaryFolder();
  const path = join(folder.path, 'recording.kreplay');
  const clock = { nowNs: START_NS };
  const writer = testWriter(path, clock);
  const context = writer.contextId({ transactionId: 'a', traceId: null, spanId: null });
  writer.append(blockOf([{ context, timestamp_ns: START_NS }]));
  writer.flush();
  const reader = openReader(path);
  const seen = () => [
    reader.readTransaction('a')?.eventCount,
    reader.readTransaction('b')?.eventCount,
    reader.losses(0n).length,
    reader.recordedSpan()?.toNs,
    [...reader.scan({ filter: { transactionId: 'b' } })].reduce((rows, { rowCount }) => rows + rowCount, 0),
  ];
  expect([seen(), seen()]).toEqual(Array(2).fill([1, undefined, 0, START_NS, 0]));
  clock.nowNs += 5_000_000_000n;
  const other = writer.contextId({ transactionId: 'b', traceId: null, spanId: null });
  writer.append(blockOf([context, other].map((one) => ({ context: one, timestamp_ns: START_NS }))));
  writer.recordLoss({ cause: 'ring_full', eventType: null, count: 7, fromNs: START_NS, toNs: START_NS + 5n });
  writer.flush();
  expect(seen()).toEqual([2, 1, 1, START_NS + 5_000_000_000n, 1]);
  reader.close();
  writer.close();
  folder.remove();
});
