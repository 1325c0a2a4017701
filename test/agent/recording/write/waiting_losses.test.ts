/** Tests the losses that wait for a commit: none is lost when commits fail, and their number is bounded. */
import { join } from 'node:path';
import fc from 'fast-check';
import type { Loss } from '../../../../agent/recording/format/losses.ts';
import { openCommitter } from '../../../../agent/recording/write/committer.ts';
import { createGatherer } from '../../../../agent/recording/write/event_buffer.ts';
import { createBlock } from '../../../../bpf/schema/block.ts';
import { temporaryFolder } from '../fixture.ts';

const folder = temporaryFolder();
const blocks = [createBlock(10)];
const committer = openCommitter(
  {
    path: join(folder.path, 'recording.kreplay'),
    node: 'test',
    machineId: '',
    bootId: '',
    startNs: 1n,
    startMonotonicNs: 1n,
  } as never,
  blocks,
);
const newGatherer = () => createGatherer(committer.opened, blocks, () => 1n);

afterAll(() => {
  committer.close();
  folder.remove();
});

const loss = fc.record({
  service: fc.constantFrom(undefined, 'shop', 'bank'),
  /** Counts of the parts; undefined: the loss is not divided. */
  parts: fc.option(fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 1, max: 9 })), { nil: undefined }),
  eventType: fc.constantFrom('sys_write' as const, 'sys_sync' as const, null),
  cause: fc.constantFrom('shed' as const, 'ring_full' as const, 'store_failed' as const),
  count: fc.integer({ min: 0, max: 9 }),
  from: fc.nat(99),
  isSummed: fc.boolean(),
});
const steps = fc.array(fc.oneof(loss, fc.constantFrom('commits', 'fails', 'begins')), { maxLength: 60 });

const keyOf = ({ cause, eventType, sums, service, transactionId, isDivided }: Loss) =>
  JSON.stringify([cause, eventType, !sums, service, transactionId, isDivided]);

/** Adds up the losses of each cause, event type and owner. */
function addUp(losses: readonly Loss[]): Map<string, unknown[]> {
  const sums = new Map<string, { count: number; bytes: bigint; from: bigint; to: bigint }>();
  for (const one of losses) {
    const known = sums.get(keyOf(one));
    const [from, to, bytes] = [one.fromNs, one.toNs, one.sums?.bytes ?? 0n];
    if (!known) sums.set(keyOf(one), { count: one.count, bytes, from, to });
    else {
      known.count += one.count;
      known.bytes += bytes;
      if (from < known.from) known.from = from;
      if (to > known.to) known.to = to;
    }
  }
  return new Map([...sums].map(([key, { count, bytes, from, to }]) => [key, [count, bytes, from, to]]));
}

test('each loss is committed once, with its owner, whatever fails meanwhile', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const gatherer = newGatherer();
      const [made, committed]: [Loss[], Loss[]] = [[], []];
      let taken: ReturnType<typeof gatherer.take>;
      const end = (isCommitted: boolean) => {
        taken ??= gatherer.take();
        if (!taken) return;
        if (isCommitted) {
          committed.push(...taken.losses.map((one) => ({ ...one })));
          gatherer.noteCommit();
        } else {
          gatherer.noteFailure();
        }
        taken = undefined;
      };
      for (const step of all) {
        if (step === 'begins') taken ??= gatherer.take();
        else if (typeof step === 'string') end(step === 'commits');
        else {
          const { service, parts, eventType, cause, count, from, isSummed } = step;
          const sums = isSummed ? { bytes: BigInt(from), durationNs: 2n, longestNs: BigInt(count) } : undefined;
          const one = { service, eventType, cause, count, sums, fromNs: BigInt(from), toNs: BigInt(from + 1) };
          const ofParts = Object.entries(parts ?? {}).map(([transactionId, countOfPart]) => {
            return { ...one, transactionId, count: countOfPart };
          });
          gatherer.addLoss(one, parts && ofParts);
          if (count > 0) made.push({ ...one, ...(parts && { isDivided: true }) }, ...ofParts);
        }
      }
      end(true);
      end(true);
      expect(addUp(committed)).toEqual(addUp(made));
    }),
  );
});

test('while no commit succeeds, the parts of ever more transactions have no room, and no loss is without a count', () => {
  const gatherer = newGatherer();
  const COUNT = 20_000;
  for (let i = 0; i < COUNT; i++) {
    const sums = { bytes: 3n, durationNs: BigInt(i), longestNs: BigInt(i) };
    const service = i % 2 ? 'shop' : 'bank';
    const one = { service, cause: 'shed', eventType: 'sys_write', count: 2, sums, fromNs: 1n, toNs: 2n } as const;
    gatherer.addLoss(one, [{ ...one, transactionId: `order-${i}` }]);
    if (i % 100 === 0) {
      gatherer.take();
      gatherer.noteFailure();
    }
  }
  const { losses } = gatherer.take()!;
  gatherer.noteCommit();
  expect(losses.length).toBeLessThan(10_000);
  const whole = losses.filter(({ transactionId }) => transactionId === undefined);
  expect(whole.map(({ service, isDivided }) => `${service} ${isDivided}`).sort()).toEqual(
    ['bank true', 'bank undefined', 'shop true', 'shop undefined'].sort(),
  );
  const add = (some: readonly Loss[]) => some.reduce((sum, { count, sums }) => sum + count + Number(sums!.bytes), 0);
  expect(add(whole)).toBe(5 * COUNT);
  // A divided loss has the parts of all its transactions.
  const divided = whole.filter(({ isDivided }) => isDivided);
  expect(add(losses.filter(({ transactionId }) => transactionId !== undefined))).toBe(add(divided));
});
