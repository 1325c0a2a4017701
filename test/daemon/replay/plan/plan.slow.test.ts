/**
 * Tests plans of real recordings against a naive oracle, with pages so small that everything crosses their boundaries.
 */
import fc from 'fast-check';
import {
  type Chunk,
  openPlan,
  type PlanRequest,
  type PlanSizes,
  type PlanWork,
} from '../../../../daemon/replay/plan/plan.ts';
import { createPageCache, type OnlyFilter, type RecordedPage } from '../../../../daemon/replay/plan/recorded.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { times as repeats } from '../../../repeats.ts';
import { type BlockRow, type Row, recordedOn, recordingPath, START } from '../../recorded.ts';
import { type Change, type Event, type Offsets, oracle, type Projected } from './projected_order.ts';

const TRANSACTION = 'tx-1';

interface Planned {
  gapNs: number;
  durationNs: number;
  thread: number;
  node: number;
  /** `writtenBack` carries data of the transaction, so its caller does not wait for it; a write unless given. */
  kind?: 'write' | 'request' | 'writtenBack';
}

/** Events in recorded order: by time, then by recording, which is by node. */
function eventsOf(planned: readonly Planned[]): Event[] {
  let startNs = 0;
  const events = planned.map(({ gapNs, durationNs, thread, node, kind = 'write' }, index) => {
    if (index > 0) startNs += gapNs;
    const common = {
      at: START + BigInt(startNs),
      duration: BigInt(durationNs),
      tid: 100 + thread,
      pid: node,
      // The event's index identifies it.
      cpu: index,
    };
    const own = { ...common, transaction: TRANSACTION };
    const row: Row =
      kind === 'writtenBack'
        ? { ...common, ...writtenBack(index) }
        : kind === 'request'
          ? { ...own, type: 'block_io' }
          : own;
    const [isCall, isOwn] = [kind === 'write', kind !== 'writtenBack'];
    return { startNs, durationNs, lane: `${node} ${thread}`, isCall, isOwn, row };
  });
  return events;
}

/** Alone in its request, or together with data of another transaction. */
function writtenBack(index: number): Pick<BlockRow, 'type' | 'source' | 'transaction' | 'origins'> {
  const [own, other] = [TRANSACTION, 'tx-2'].map((transaction) => ({ transaction, bytes: 4096n }));
  if (index % 2 === 0) return { type: 'block_io', source: 'origin', transaction: TRANSACTION, origins: [own!] };
  return { type: 'block_io', source: 'origin', origins: [other!, own!] };
}

const times = fc.oneof(fc.nat(5), fc.nat(10 ** 9));
const kind = fc.constantFrom('write' as const, 'request' as const, 'request' as const, 'writtenBack' as const);
const only = fc.constantFrom<OnlyFilter | undefined>(
  undefined,
  ...[['sys_write'], ['block_io'], ['sys_write', 'block_io']].map((eventTypes) => ({ eventTypes })),
);
const plannedEvents = fc.array(
  fc.record({ gapNs: times, durationNs: times, thread: fc.nat(4), node: fc.nat(1), kind }),
  {
    minLength: 1,
    maxLength: 60,
  },
);
const latency = fc.oneof(fc.constant(0), fc.nat(7), fc.nat(3.6e12));
const offset = fc.oneof(fc.constant(undefined), fc.integer({ min: -9, max: 9 }), fc.integer({ min: -2e9, max: 2e9 }));
const offsetsOfNodes = fc.tuple(offset, offset);
const sizes = fc.record({ pageEvents: fc.integer({ min: 1, max: 8 }), markEvents: fc.constantFrom(1, 2, 8, 64) });

/** Three plans of each series of events. */
const askings = <Parts extends unknown[]>(...parts: { [Part in keyof Parts]: fc.Arbitrary<Parts[Part]> }) =>
  fc.array(fc.tuple<Parts>(...parts), { minLength: 3, maxLength: 3 });

interface Opened {
  work: PlanWork;
  /** Events in the recording's order: two nodes' events of the same time are ordered by their recordings' ids. */
  events: Event[];
  close(): void;
}

interface Asked extends Partial<Omit<PlanRequest, 'clockOffsetsNs'>> {
  extraLatencyNs?: number;
  only?: OnlyFilter | undefined;
  offsets?: Offsets;
}

/** The folders of each series of events, which is recorded only once: that takes longer than a plan of it. */
const folders = new WeakMap<readonly Planned[], string[]>();

function recordedOnce(planned: readonly Planned[], events: readonly Event[]): string[] {
  const known = folders.get(planned);
  if (known) return known;
  const made = [0, 1].flatMap((node) => {
    const rows = events.filter(({ row }) => row.pid === node).map(({ row }) => row);
    return rows.length > 0 ? [recordedOn(`node-${node}`, rows)] : [];
  });
  folders.set(planned, made);
  return made;
}

function open(planned: readonly Planned[], asked: Asked, planSizes: PlanSizes): Opened {
  const { extraLatencyNs = 0, offsets = [], only, ...request } = asked;
  const events = eventsOf(planned);
  const store = openRecordingStore(undefined, recordedOnce(planned, events).map(recordingPath));
  const scanned = [...store.scan({ filter: { transactionId: TRANSACTION }, order: 'asc' })].flatMap(({ block }) =>
    Array.from(block.columns.get('cpu')!.subarray(0, block.rowCount), Number),
  );
  const caches = { recorded: createPageCache<RecordedPage>(3), bodies: createPageCache<Chunk>(2) };
  const clockOffsetsNs = Object.fromEntries(
    offsets.flatMap((ns, node) =>
      ns !== undefined && planned.some((event) => event.node === node) ? [[`node-${node}`, ns]] : [],
    ),
  );
  const latency = [{ fromIndex: 0, extraLatencyNs, only }];
  const defaults = { transactionId: TRANSACTION, latency, timeoutNs: null, maxGapNs: null };
  const work = openPlan(store, { ...defaults, ...request, clockOffsetsNs }, caches, planSizes);
  return { work, events: scanned.map((index) => events[index]!), close: () => store.close() };
}

function goThrough(work: PlanWork): void {
  while (work.advance());
}

/** Reads all events of a plan, in pages of `limit`, with the index of each event from its JSON. */
function read(work: PlanWork, from: number, limit: number): (Projected & { told: number })[] {
  const all: (Projected & { told: number })[] = [];
  for (;;) {
    const { first, count, isLast, startNs, durationNs, bytes, ends } = work.readPage(from + all.length, limit);
    expect(first).toBe(from + all.length);
    for (let at = 0; at < count; at++) {
      const text = Buffer.from(bytes.subarray(at === 0 ? 0 : ends[at - 1], ends[at])).toString();
      const told = JSON.parse(text).cpu as number;
      all.push({ recorded: -1, told, startNs: startNs[at]!, durationNs: durationNs[at]! });
    }
    if (isLast) return all;
  }
}

function expectPlan(opened: Opened, from: number, limit: number, expected: readonly Projected[]): void {
  const { work, events } = opened;
  const wanted = expected.slice(from).map(({ recorded, startNs, durationNs }) => {
    return {
      recorded: -1,
      told: events[recorded]!.row.cpu!,
      startNs,
      durationNs,
    };
  });
  expect(read(work, from, limit)).toEqual(wanted);
}

test('the plan is the timeline of the definition, wherever reading begins', () => {
  fc.assert(
    fc.property(
      plannedEvents,
      askings(
        fc.record({
          extraLatencyNs: latency,
          only,
          maxGapNs: fc.option(times),
          timeoutNs: fc.option(times),
          offsets: offsetsOfNodes,
        }),
        sizes,
        fc.nat(60),
        fc.integer({ min: 1, max: 10 }),
      ),
      (planned, asked) => {
        for (const [request, planSizes, from, limit] of asked) {
          const opened = open(planned, request, planSizes);
          const { work, events } = opened;
          const order = oracle(events, [{ fromIndex: 0, extraLatencyNs: request.extraLatencyNs }], request);
          const start = Math.min(from, order.length);
          // The plan is correct both before and after it has been gone through.
          expectPlan(opened, 0, limit, order);
          goThrough(work);
          expectPlan(opened, start, limit, order);
          const ends = order.map(({ startNs, durationNs }) => startNs + durationNs);
          const ownEnds = order.map(({ recorded }, at) => (events[recorded]!.isOwn ? ends[at]! : 0));
          const { timeoutNs } = request;
          const late = timeoutNs === null ? -1 : ownEnds.findIndex((endNs) => endNs > timeoutNs);
          const { eventCount, survey, recordedDurationNs } = work.outline();
          expect(eventCount).toBe(order.length);
          expect(survey).toMatchObject({ durationNs: Math.max(...ownEnds), endNs: Math.max(...ends) });
          const asRecorded = oracle(events, [{ fromIndex: 0, extraLatencyNs: 0 }], { ...request, maxGapNs: null });
          const recordedOwn = asRecorded.filter(({ recorded }) => events[recorded]!.isOwn);
          expect(recordedDurationNs).toBe(Math.max(0, ...recordedOwn.map((event) => event.startNs + event.durationNs)));
          expect(survey!.timeoutEventId === null).toBe(late < 0);
          if (late >= 0) expect(work.place({ event_id: survey!.timeoutEventId! })!.index).toBe(late);
          opened.close();
        }
      },
    ),
    { numRuns: repeats(8) },
  );
});

test('a seek finds what a search from the start finds', () => {
  fc.assert(
    fc.property(
      plannedEvents,
      askings(
        fc.record({ extraLatencyNs: latency, only, maxGapNs: fc.option(times), offsets: offsetsOfNodes }),
        sizes,
        fc.nat(60),
        fc.integer({ min: -2, max: 2 }),
      ),
      (planned, asked) => {
        for (const [request, planSizes, which, offsetNs] of asked) {
          const opened = open(planned, request, planSizes);
          const { work, events } = opened;
          goThrough(work);
          const order = oracle(events, [{ fromIndex: 0, extraLatencyNs: request.extraLatencyNs }], request);
          const index = which % order.length;
          const { startNs } = order[index]!;
          expect(work.place({ event_index: BigInt(index) })).toEqual({ positionNs: startNs, index });
          expect(work.place({ event_index: BigInt(order.length) })).toBeNull();

          const durationNs = Math.max(...order.map((event) => event.startNs + event.durationNs));
          const positionNs = startNs + offsetNs;
          const next = order.findIndex((event) => event.startNs >= positionNs);
          const place = work.place({ position_ns: BigInt(positionNs) });
          if (positionNs <= 0) expect(place).toEqual({ positionNs: 0, index: 0 });
          else if (positionNs > durationNs || (positionNs === durationNs && next < 0)) expect(place).toBeNull();
          else expect(place).toEqual({ positionNs, index: next < 0 ? order.length : next });

          const recordedNs = events[order[index]!.recorded]!.startNs;
          const first = events.findIndex((event) => event.startNs >= recordedNs);
          const atTime = work.place({ timestamp_ns: START + BigInt(recordedNs) });
          const found = order.findIndex(({ recorded }) => recorded === first);
          expect(atTime).toEqual({ positionNs: order[found]!.startNs, index: found });
          expect(work.place({ timestamp_ns: START - 1n })).toEqual({ positionNs: 0, index: 0 });
          opened.close();
        }
      },
    ),
    { numRuns: repeats(8) },
  );
});

test('a change of latency applies from one event on, and no event is repeated or left out', () => {
  fc.assert(
    fc.property(
      plannedEvents,
      askings(
        fc.record({ extraLatencyNs: latency, only, maxGapNs: fc.option(times), offsets: offsetsOfNodes }),
        sizes,
        fc.array(fc.record({ fromIndex: fc.nat(60), extraLatencyNs: latency }), { minLength: 1, maxLength: 3 }),
        fc.boolean(),
      ),
      (planned, asked) => {
        for (const [request, planSizes, wanted, isGoneThrough] of asked) {
          const opened = open(planned, request, planSizes);
          const { work, events } = opened;
          const changes: Change[] = [{ fromIndex: 0, extraLatencyNs: request.extraLatencyNs }];
          for (const { fromIndex, extraLatencyNs } of wanted.sort((a, b) => a.fromIndex - b.fromIndex)) {
            if (isGoneThrough) goThrough(work);
            const index = Math.min(fromIndex, events.length - 1);
            // A session has played up to here before it changes the latency.
            read(work, Math.max(index - 3, 0), 2);
            work.changeLatency(index, { extraLatencyNs });
            changes.splice(changes.findLastIndex((change) => change.fromIndex < index) + 1);
            changes.push({ fromIndex: index, extraLatencyNs });
          }
          expectPlan(opened, 0, 7, oracle(events, changes, request));
          goThrough(work);
          const order = oracle(events, changes, request);
          expectPlan(opened, Math.floor(events.length / 2), 3, order);

          const { extraLatencyNs: _, only: __, ...settings } = request;
          const again = open([...planned], { ...settings, latency: work.outline().latency }, planSizes);
          // In another recording, events of the same time may be in another order.
          expectPlan(again, 0, 7, oracle(again.events, changes, request));
          again.close();

          // A seek lays out the whole plan again.
          if (work.layOutAnew()) goThrough(work);
          work.place({ event_index: 0n });
          const { extraLatencyNs } = changes.at(-1)!;
          expectPlan(opened, 0, 5, oracle(events, [{ fromIndex: 0, extraLatencyNs }], request));
          opened.close();
        }
      },
    ),
    { numRuns: repeats(8) },
  );
});

test('a latency makes an event of another thread overtake', () => {
  const event = (gapNs: number, thread: number) => ({ gapNs, durationNs: 10, thread, node: 0 });
  const opened = open([event(0, 0), event(20, 0), event(5, 1)], { extraLatencyNs: 7, timeoutNs: 40 }, {});
  goThrough(opened.work);
  expect(read(opened.work, 0, 9).map(({ told, startNs }) => [told, startNs])).toEqual([
    [0, 0],
    [2, 25],
    [1, 27],
  ]);
  const { survey } = opened.work.outline();
  expect(survey!.durationNs).toBe(44);
  expect(opened.work.place({ event_id: survey!.timeoutEventId! })!.index).toBe(1);
  opened.close();
});

test('a duration beyond the range of a double is refused', () => {
  const events = Array.from({ length: 2600 }, () => ({ gapNs: 1, durationNs: 1, thread: 0, node: 0 }));
  expect(() => open(events, { extraLatencyNs: 3.6e12 }, {})).toThrow(/104 days/);
});
