/** Tests predictions about a latency against a plan with that latency. */
import fc from 'fast-check';
import { createPlanner, type ReplayPlan } from '../../../../daemon/replay/plan/planner.ts';
import type { OnlyFilter } from '../../../../daemon/replay/plan/recorded.ts';
import type { WhatIfRequest } from '../../../../daemon/replay/plan/what_if.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { times } from '../../../repeats.ts';
import { type Row, recordedOn, recordingPath, START } from '../../recorded.ts';

const TRANSACTION = 'tx-1';

const opened: Recordings[] = [];
afterEach(() => {
  for (const store of opened.splice(0)) store.close();
});

function plannerOf(rows: readonly NodeRow[]) {
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
  return {
    transactionId: TRANSACTION,
    extraLatencyNs: 0n,
    timeoutNs: null,
    clockOffsetsNs: {},
    only: {},
    limit: 20,
    ...more,
  };
};

const TYPES = [['sys_write'], ['block_io'], ['sys_write', 'block_io']];

type NodeRow = Row & { node?: string };

const rowsOf = fc
  .array(
    fc.record({
      gapNs: fc.nat(1000),
      durationNs: fc.nat(5000),
      tid: fc.nat(3),
      node: fc.constantFrom('node-a', 'node-b'),
      kind: fc.constantFrom('write' as const, 'request' as const, 'request' as const, 'writtenBack' as const),
    }),
    { minLength: 1, maxLength: 40 },
  )
  .map((planned) => {
    let at = START;
    return planned.map(({ gapNs, durationNs, tid, node, kind }): NodeRow => {
      at += BigInt(gapNs);
      const common = { at, duration: BigInt(durationNs), tid, node };
      if (kind === 'write') return common;
      return { ...common, type: 'block_io', ...(kind === 'writtenBack' && { source: 'origin' }) };
    });
  });

const someEvents = fc.constantFrom<OnlyFilter>({}, ...TYPES.map((eventTypes) => ({ eventTypes })));

/** The offset of node-b, if the recording has that node. */
const offsetsFor = (rows: readonly NodeRow[], offsetNs: number) =>
  Object.fromEntries(rows.filter(({ node }) => node === 'node-b').map(() => ['node-b', offsetNs]));

test('the result agrees with a session with that latency', async () => {
  const settings = fc.record({
    latencyNs: fc.nat(3000),
    timeoutNs: fc.integer({ min: 1, max: 60_000 }),
    offsetNs: fc.integer({ min: -5000, max: 5000 }),
    only: someEvents,
  });
  await fc.assert(
    fc.asyncProperty(rowsOf, settings, async (rows, { latencyNs, timeoutNs, offsetNs, only }) => {
      const planner = plannerOf(rows);
      const clockOffsetsNs = offsetsFor(rows, offsetNs);
      const request = { extraLatencyNs: BigInt(latencyNs), timeoutNs: BigInt(timeoutNs), clockOffsetsNs, only };
      const told = await planner.whatIf(ask(request));
      const earlierNs = writtenBackBefore(rows, offsetNs);
      const plan = await planner.open(
        {
          transactionId: TRANSACTION,
          latency: [{ fromIndex: 0, extraLatencyNs: latencyNs, only }],
          timeoutNs: timeoutNs + earlierNs,
          maxGapNs: null,
          clockOffsetsNs,
        },
        () => {},
      );
      const { eventCount, recordedDurationNs, survey, clocks } = plan.outline;
      const types = only.eventTypes ?? ['sys_write'];
      const affectedCount = rows.filter(({ type = 'sys_write' }) => types.includes(type)).length;
      expect(told).toMatchObject({ eventCount, affectedCount, clocks });
      const [recordedNs, projectedNs] = [told.recordedDurationNs, told.durationNs].map(Number) as [number, number];
      expect([recordedNs, projectedNs]).toEqual(
        [recordedDurationNs, survey!.durationNs].map((ns) => Math.max(ns - earlierNs, 0)),
      );
      expect(told.afterTimeoutCount > 0).toBe(survey!.timeoutEventId !== null);
      expect(told.writtenBackCount).toBe(rows.filter(({ source }) => source === 'origin').length);
      const expected = (await eventsOf(plan)).filter(
        ({ isOwn, startNs, durationNs }) => isOwn && startNs + durationNs > timeoutNs + earlierNs,
      );
      expect(told.afterTimeoutCount).toBe(expected.length);
      const late = told.afterTimeout.map(({ event, offsetNs: startNs, durationNs }) => {
        return { eventId: event.event_id, startNs: Number(startNs) + earlierNs, durationNs: Number(durationNs) };
      });
      expect(late).toEqual(expected.slice(0, 20).map(({ isOwn: _, ...event }) => event));
      plan.close();
    }),
    { numRuns: times(15) },
  );
});

/** How long before the first own event a session begins, with what was written back by then. */
function writtenBackBefore(rows: readonly NodeRow[], offsetNs: number): number {
  const startOf = ({ at, node }: NodeRow) => at! + BigInt(node === 'node-b' ? offsetNs : 0);
  const first = (some: readonly NodeRow[]) => some.map(startOf).reduce((a, b) => (b < a ? b : a));
  const own = rows.filter(({ source }) => source !== 'origin');
  return own.length > 0 ? Number(first(own) - first(rows)) : 0;
}

async function eventsOf(plan: ReplayPlan) {
  const { count, bytes, ends, startNs, durationNs } = await plan.readPage(0, 100);
  return Array.from({ length: count }, (_, at) => {
    const text = Buffer.from(bytes).toString('utf8', ends[at - 1] ?? 0, ends[at]);
    const { event_id: eventId, attribution } = JSON.parse(text);
    return { isOwn: attribution.source !== 'origin', eventId, startNs: startNs[at]!, durationNs: durationNs[at]! };
  });
}

test('the smallest latency that times out does so, and a nanosecond less does not', async () => {
  await fc.assert(
    fc.asyncProperty(rowsOf, fc.integer({ min: 1, max: 60_000 }), fc.nat(5000), someEvents, async (rows, ...given) => {
      const [timeoutNs, offsetNs, only] = given;
      const planner = plannerOf(rows);
      const asked = { timeoutNs: BigInt(timeoutNs), clockOffsetsNs: offsetsFor(rows, offsetNs), only };
      const late = async (extraLatencyNs: bigint) =>
        (await planner.whatIf(ask({ ...asked, extraLatencyNs }))).afterTimeoutCount;
      const { smallestLatencyNs } = await planner.whatIf(ask(asked));
      const { curve, recordedDurationNs } = await planner.whatIf(ask(asked));
      const canBeLate = curve.some(({ events }) => events > 0n) || recordedDurationNs > asked.timeoutNs;
      expect(smallestLatencyNs !== null).toBe(canBeLate);
      if (!canBeLate) {
        expect(await late(3_600_000_000_000n)).toBe(0);
        return;
      }
      expect(await late(smallestLatencyNs!)).toBeGreaterThan(0);
      if (smallestLatencyNs! > 0n) expect(await late(smallestLatencyNs! - 1n)).toBe(0);
    }),
    { numRuns: times(15) },
  );
});

describe('the latency may apply to only some events', () => {
  const ROWS: NodeRow[] = [
    { at: START, duration: 10n, tid: 1, service: 'web' },
    { at: START + 20n, duration: 10n, tid: 1, service: 'db' },
    { at: START + 40n, duration: 10n, tid: 1, service: 'web' },
    { type: 'block_io', at: START + 60n, duration: 10n, tid: 1, service: 'db' },
    { at: START + 80n, duration: 10n, tid: 1, service: 'db', node: 'node-b' },
  ];

  test.each([
    [{}, 4, 370n],
    [{ services: ['db'] }, 2, 190n],
    [{ services: ['db', 'web'] }, 4, 370n],
    [{ eventTypes: ['sys_write'] }, 4, 370n],
    [{ eventTypes: ['block_io'] }, 1, 170n],
    [{ eventTypes: ['sys_write', 'block_io'] }, 5, 470n],
    [{ eventTypes: ['sys_write', 'block_io'], services: ['db'] }, 3, 270n],
    [{ eventTypes: ['sys_write'], services: ['db'] }, 2, 190n],
    [{ nodes: ['node-b'] }, 1, 190n],
    [{ services: ['nobody'] }, 0, 90n],
  ])('%j', async (only, affectedCount, durationNs) => {
    const planner = plannerOf(ROWS);
    const told = await planner.whatIf(ask({ extraLatencyNs: 100n, only }));
    expect(told).toMatchObject({ eventCount: 5, affectedCount, durationNs, recordedDurationNs: 90n });
  });

  test('if no event gets the latency, none is large enough', async () => {
    const planner = plannerOf(ROWS);
    const only = { services: ['nobody'] };
    const asked = (timeoutNs: bigint) => planner.whatIf(ask({ only, timeoutNs }));
    expect(await asked(90n)).toMatchObject({ smallestLatencyNs: null, afterTimeoutCount: 0 });
    expect(await asked(89n)).toMatchObject({ smallestLatencyNs: 0n, afterTimeoutCount: 1 });
  });
});

describe('a latency counts once for what a caller waits for', () => {
  const call = (atNs: number, durationNs: number): NodeRow => {
    return { at: START + BigInt(atNs), duration: BigInt(durationNs), tid: 1 };
  };
  const request = (atNs: number, durationNs: number): NodeRow => ({ ...call(atNs, durationNs), type: 'block_io' });

  test.each<[name: string, rows: NodeRow[], ofCalls: bigint, ofRequests: bigint]>([
    ['a direct write has a request within it', [call(0, 50), request(10, 30), call(60, 5)], 2065n, 1065n],
    ['requests side by side', [call(0, 50), request(10, 20), request(12, 30), request(40, 5)], 1050n, 1050n],
    ['requests one after the other', [call(0, 50), request(10, 10), request(30, 10), call(60, 5)], 2065n, 2065n],
    ['a request that goes on after its call', [call(0, 50), request(10, 70), call(60, 30)], 2090n, 1080n],
    ['a page that was read before a call', [call(0, 10), request(20, 10), call(40, 5)], 2045n, 1045n],
    ['what is read ahead while calls go on', [call(0, 10), request(20, 90), call(40, 95)], 2135n, 1110n],
    [
      'one of a run ends within the call and one does not',
      [call(0, 50), request(10, 10), request(15, 70), call(60, 30)],
      2090n,
      1090n,
    ],
    [
      'threads side by side',
      [call(0, 50), request(10, 30), { ...call(20, 45), tid: 2 }, { ...request(25, 30), tid: 2 }],
      1065n,
      1065n,
    ],
  ])('%s', async (_, rows, ofCalls, ofRequests) => {
    const planner = plannerOf(rows.toSorted((a, b) => Number(a.at! - b.at!)));
    const durationOf = async (only: OnlyFilter) => {
      return (await planner.whatIf(ask({ extraLatencyNs: 1000n, only }))).durationNs;
    };
    expect(await durationOf({})).toBe(ofCalls);
    expect(await durationOf({ eventTypes: ['sys_write', 'sys_sync'] })).toBe(ofCalls);
    expect(await durationOf({ eventTypes: ['block_io'] })).toBe(ofRequests);
  });
});

test('late events are left out on request', async () => {
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

test('an unrecorded transaction is reported', async () => {
  const planner = plannerOf([{ at: START }]);
  await expect(planner.whatIf({ ...ask(), transactionId: 'unknown' })).rejects.toMatchObject({
    code: 'transaction_not_found',
  });
});
