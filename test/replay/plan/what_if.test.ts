/** What a latency would do, against a plan with that latency. */
import fc from 'fast-check';
import { createPlanner } from '../../../daemon/replay/plan/planner.ts';
import type { WhatIfRequest } from '../../../daemon/replay/plan/what_if.ts';
import { openRecordingStore } from '../../../daemon/store/recording_store.ts';
import type { Store } from '../../../daemon/store/store.ts';
import { type Row, recordedOn, recordingPath, START } from '../../daemon/recorded.ts';

const TRANSACTION = 'tx-1';

const opened: Store[] = [];
afterEach(() => {
  for (const store of opened.splice(0)) store.close();
});

function plannerOf(rows: readonly (Row & { node?: string })[]) {
  const nodes = [...new Set(rows.map(({ node = 'node-a' }) => node))];
  const folders = nodes.map((name) =>
    recordedOn(
      name,
      rows.filter(({ node = 'node-a' }) => node === name).map((row) => ({ ...row, transaction: TRANSACTION })),
    ),
  );
  const store = openRecordingStore(undefined, folders.map(recordingPath));
  opened.push(store);
  return createPlanner(store);
}

const ask = (more: Partial<WhatIfRequest> = {}): WhatIfRequest => {
  return { transactionId: TRANSACTION, extraLatencyNs: 0n, timeoutNs: null, only: {}, limit: 20, ...more };
};

const rowsOf = fc
  .array(fc.record({ gapNs: fc.nat(1000), durationNs: fc.nat(5000), tid: fc.nat(3) }), { minLength: 1, maxLength: 40 })
  .map((planned) => {
    let at = START;
    return planned.map(({ gapNs, durationNs, tid }): Row => {
      at += BigInt(gapNs);
      return { at, duration: BigInt(durationNs), tid };
    });
  });

test('it says what a session with that latency would come to', async () => {
  await fc.assert(
    fc.asyncProperty(rowsOf, fc.nat(3000), fc.integer({ min: 1, max: 60_000 }), async (rows, latencyNs, timeoutNs) => {
      const planner = plannerOf(rows);
      const request = { extraLatencyNs: BigInt(latencyNs), timeoutNs: BigInt(timeoutNs) };
      const told = await planner.whatIf(ask(request));
      const plan = await planner.open(
        { transactionId: TRANSACTION, extraLatencyNs: latencyNs, timeoutNs, maxGapNs: null },
        () => {},
      );
      const { eventCount, recordedDurationNs, survey } = plan.outline;
      expect(told).toMatchObject({ eventCount, affectedCount: eventCount });
      expect([Number(told.recordedDurationNs), Number(told.durationNs)]).toEqual([
        recordedDurationNs,
        survey!.durationNs,
      ]);
      expect(told.afterTimeoutCount > 0).toBe(survey!.timeoutEventId !== null);
      const page = await plan.page(0, 100);
      const late = Array.from({ length: page.count }, (_, at) => [page.startNs[at]!, page.durationNs[at]!] as const);
      const expected = late.filter(([startNs, durationNs]) => startNs + durationNs > timeoutNs);
      expect(told.afterTimeoutCount).toBe(expected.length);
      expect(told.afterTimeout.map(({ offsetNs, durationNs }) => [Number(offsetNs), Number(durationNs)])).toEqual(
        expected.slice(0, 20),
      );
      plan.close();
    }),
    { numRuns: 40 },
  );
});

test('the smallest latency that times out does, and a nanosecond less does not', async () => {
  await fc.assert(
    fc.asyncProperty(rowsOf, fc.integer({ min: 1, max: 60_000 }), async (rows, timeoutNs) => {
      const planner = plannerOf(rows);
      const late = async (extraLatencyNs: bigint) =>
        (await planner.whatIf(ask({ extraLatencyNs, timeoutNs: BigInt(timeoutNs) }))).afterTimeoutCount;
      const { smallestLatencyNs } = await planner.whatIf(ask({ timeoutNs: BigInt(timeoutNs) }));
      expect(await late(smallestLatencyNs!)).toBeGreaterThan(0);
      if (smallestLatencyNs! > 0n) expect(await late(smallestLatencyNs! - 1n)).toBe(0);
    }),
    { numRuns: 40 },
  );
});

describe('only some events get the latency', () => {
  const ROWS: (Row & { node?: string })[] = [
    { at: START, duration: 10n, tid: 1, service: 'web' },
    { at: START + 20n, duration: 10n, tid: 1, service: 'db' },
    { at: START + 40n, duration: 10n, tid: 1, service: 'web' },
    { type: 'block_io', at: START + 60n, duration: 10n, tid: 1, service: 'db' },
    { at: START + 80n, duration: 10n, tid: 1, service: 'db', node: 'node-b' },
  ];

  test.each([
    [{}, 5, 470n],
    [{ services: ['db'] }, 3, 270n],
    [{ services: ['db', 'web'] }, 5, 470n],
    [{ eventTypes: ['sys_write'] }, 4, 370n],
    [{ eventTypes: ['sys_write'], services: ['db'] }, 2, 190n],
    [{ nodes: ['node-b'] }, 1, 190n],
    [{ services: ['nobody'] }, 0, 90n],
  ])('%j', async (only, affectedCount, durationNs) => {
    const planner = plannerOf(ROWS);
    const told = await planner.whatIf(ask({ extraLatencyNs: 100n, only }));
    expect(told).toMatchObject({ eventCount: 5, affectedCount, durationNs, recordedDurationNs: 90n });
  });

  test('when none does, no latency is large enough', async () => {
    const planner = plannerOf(ROWS);
    const only = { services: ['nobody'] };
    const asked = (timeoutNs: bigint) => planner.whatIf(ask({ only, timeoutNs }));
    expect(await asked(90n)).toMatchObject({ smallestLatencyNs: null, afterTimeoutCount: 0 });
    expect(await asked(89n)).toMatchObject({ smallestLatencyNs: 0n, afterTimeoutCount: 1 });
  });
});

test('none of the late events is given when none is wanted', async () => {
  const planner = plannerOf([{ at: START, duration: 100n }]);
  const told = await planner.whatIf(ask({ timeoutNs: 10n, limit: 0 }));
  expect(told).toMatchObject({ afterTimeoutCount: 1, afterTimeout: [] });
});

test('64-bit values are exact', async () => {
  const planner = plannerOf([{ at: START, duration: 2n ** 62n + 1n }]);
  const told = await planner.whatIf(ask({ extraLatencyNs: 3_600_000_000_000n, timeoutNs: 2n ** 62n + 2n }));
  expect(told.durationNs).toBe(2n ** 62n + 1n + 3_600_000_000_000n);
  expect(told.smallestLatencyNs).toBe(2n);
});

test('a transaction that is not recorded is said to be', async () => {
  const planner = plannerOf([{ at: START }]);
  await expect(planner.whatIf({ ...ask(), transactionId: 'unknown' })).rejects.toMatchObject({
    code: 'transaction_not_found',
  });
});
