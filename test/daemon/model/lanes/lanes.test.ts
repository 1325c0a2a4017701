/** The model of the lanes, against slow and simple oracles. */
import fc from 'fast-check';
import type { EventColumns } from '../../../../daemon/model/columns/event_columns.ts';
import { computeBreakdown, PARTS } from '../../../../daemon/model/lanes/breakdown.ts';
import { createLanes, type LanesOptions, listLanesBuffers } from '../../../../daemon/model/lanes/model.ts';
import { collectNeighbours, groupTimesByDevice } from '../../../../daemon/model/lanes/neighbours.ts';
import { spread, TRACKS_MAX } from '../../../../daemon/model/lanes/tracks.ts';
import { createLinks } from '../../../../daemon/page/lanes/links.ts';
import { times } from '../../../repeats.ts';
import { columnsOf, type MadeEvent, made } from '../columns/made_columns.ts';

const OF_ORDER: LanesOptions = { transactions: new Set(['order-1']) };

/** Small times, so that a set of single nanoseconds can stand for a union. */
const event: fc.Arbitrary<MadeEvent> = fc
  .record({
    start: fc.nat(60),
    duration: fc.nat(25),
    type: fc.constantFrom('sys_write' as const, 'block_io' as const, 'sys_sync' as const),
    node: fc.constantFrom('n1', 'n2'),
    tid: fc.constantFrom(8, 9),
    transaction: fc.constantFrom('order-1', 'backup-1', null),
    source: fc.constantFrom('marker', 'origin'),
    service: fc.constantFrom('shop', 'backup'),
    result: fc.constantFrom(0, -28),
    queue: fc.option(fc.nat(30)),
    bytes: fc.option(fc.nat(9)),
    queuedBy: fc.constantFrom('order-1', 'backup-1', null),
    origins: fc.array(fc.tuple(fc.constant('shop'), fc.constantFrom('order-1', 'other', null), fc.nat(9)), {
      maxLength: 1,
    }),
  })
  .map((one) => ({
    ...made(one),
    recordingId: one.node,
    target: one.type === 'block_io' ? ['nvme0n1', 'nvme1n1'][one.tid - 8]! : '/srv/wal',
    ...(one.type === 'block_io' ? {} : { queue: null, queuedBy: null, origins: [] }),
  }));
const manyEvents = fc.array(event, { minLength: 1, maxLength: 20, size: 'max' });

/** The made events in the order of the columns' rows, which their numbers find. */
function inRows(events: readonly MadeEvent[], columns: EventColumns): MadeEvent[] {
  return Array.from(columns.number, (number) => events.find((one) => one.number === number)!);
}

const isOwn = (one: MadeEvent) => one.transaction === 'order-1' && one.source !== 'origin';
const hasData = (one: MadeEvent) =>
  !isOwn(one) && (one.transaction === 'order-1' || one.origins.some(([, transaction]) => transaction === 'order-1'));

/** A task of the transaction queued it, whatever data it carries. */
const isQueued = (one: MadeEvent) => one.queuedBy === 'order-1';

function nanoseconds(some: readonly (readonly [from: number, to: number])[]): Set<number> {
  return new Set(some.flatMap(([from, to]) => Array.from({ length: Math.max(to - from, 0) }, (_, i) => from + i)));
}

const common = (one: ReadonlySet<number>, other: ReadonlySet<number>) => [...one].filter((ns) => other.has(ns));

const spanOf = ({ start, duration }: MadeEvent) => [Number(start), Number(start) + Number(duration)] as const;
const queued = (one: MadeEvent) =>
  [Number(one.start), Math.min(Number(one.start) + Number(one.queue ?? 0), spanOf(one)[1])] as const;

/** Until when the thread that queued a request may have waited for it, by the words of the rule; null if not known. */
function waitedUntil(one: MadeEvent, own: readonly MadeEvent[]): number | null {
  const [start, end] = spanOf(one);
  const calls = own
    .filter(({ type, node, tid }) => type !== 'block_io' && node === one.node && tid === one.tid)
    .map(spanOf)
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const before = calls.findLast(([from]) => from <= start);
  if (before && start < before[1]) return before[1];
  return calls.some(([from]) => from > start && from < end) ? start : null;
}

/** Each nanosecond by itself, by the words of the rule. */
function slowParts(events: readonly MadeEvent[], base: number): { from: number; parts: number[] } | null {
  const own = events.filter(isOwn);
  if (own.length === 0) return null;
  const from = Math.min(...own.map((one) => spanOf(one)[0]));
  const to = Math.max(...own.map((one) => spanOf(one)[1]));
  const counts = [0, 0, 0, 0, 0, 0];
  const calls = (type: string) => nanoseconds(own.filter((one) => one.type === type).map(spanOf));
  const requests = events.filter(({ type }) => type === 'block_io');
  const syncs = (node: string) =>
    nanoseconds(own.filter((one) => one.type === 'sys_sync' && one.node === node).map(spanOf));
  const inRequest = (ns: number, part: (one: MadeEvent) => readonly [number, number]) =>
    requests.some((one) => {
      const [start, end] = part(one);
      if (ns < start || ns >= end) return false;
      const isIts = isOwn(one) || isQueued(one);
      const until = isIts ? waitedUntil(one, own) : start;
      if (until === null || !(isIts || hasData(one))) return false;
      return ns < until || syncs(one.node).has(ns);
    });
  const isUnknown = (ns: number) =>
    requests.some((one) => {
      const [start, end] = spanOf(one);
      return ns >= start && ns < end && (isOwn(one) || isQueued(one)) && waitedUntil(one, own) === null;
    });
  const [sync, write] = [calls('sys_sync'), calls('sys_write')];
  for (let ns = from; ns < to; ns++) {
    const holds = [inRequest(ns, queued), inRequest(ns, spanOf), sync.has(ns), write.has(ns), isUnknown(ns), true];
    counts[holds.indexOf(true)]!++;
  }
  return { from: from - base, parts: counts };
}

test('the breakdown is that of each nanosecond by itself, and adds up', () => {
  fc.assert(
    fc.property(manyEvents, (events) => {
      const model = createLanes(columnsOf(events), OF_ORDER);
      const breakdown = computeBreakdown(model);
      const expected = slowParts(events, Math.min(...events.map(({ start }) => Number(start))));
      expect(breakdown && PARTS.map((part) => breakdown.parts[part])).toEqual(expected?.parts ?? null);
      if (!breakdown) return;
      expect(breakdown.span.fromNs).toBe(expected!.from);
      expect(PARTS.reduce((sum, part) => sum + breakdown.parts[part], 0)).toBe(breakdown.durationNs);
    }),
    { numRuns: times(100) },
  );
});

test('the breakdown adds up with offsets of 19 digits, too', () => {
  const days = 100n * 86_400n * 10n ** 9n;
  const first = made({ duration: 1 });
  const columns = columnsOf([first, made({ start: days + 1n, duration: 2, type: 'sys_sync' })]);
  const { durationNs, parts } = computeBreakdown(createLanes(columns, OF_ORDER))!;
  expect(BigInt(durationNs)).toBe(days + 3n);
  expect(parts).toEqual({ queue: 0, service: 0, sync: 2, write: 1, request: 0, untraced: Number(days) });
});

test('events are own, written back or of others', () => {
  fc.assert(
    fc.property(manyEvents, (events) => {
      const columns = columnsOf(events);
      const rows = inRows(events, columns);
      const model = createLanes(columns, OF_ORDER);
      expect([...model.shares]).toEqual(rows.map((one) => (isOwn(one) ? 0 : hasData(one) ? 1 : 2)));
      expect(createLanes(columns, { transactions: null }).shares.every((share) => share === 0)).toBe(true);
      const late = rows.filter((one) => !isOwn(one) && hasData(one)).map((one) => spanOf(one)[1]);
      const baseNs = Number(rows[0]!.start);
      expect(model.writtenBack).toEqual(
        late.length > 0 ? { count: late.length, lastEndNs: Math.max(...late) - baseNs } : null,
      );
    }),
  );
});

test('every event is in one lane, and events of a track do not overlap below the most tracks', () => {
  fc.assert(
    fc.property(manyEvents, (events) => {
      const model = createLanes(columnsOf(events), OF_ORDER);
      const lanes = model.groups.flatMap((group) => group.lanes);
      const rows = lanes.flatMap(({ tracks }) => tracks.flatMap((track) => [...track.rows]));
      expect(rows.toSorted((a, b) => a - b)).toEqual(events.map((_, row) => row));
      expect(new Set(lanes.map(({ key }) => key)).size).toBe(lanes.length);
      for (const { tracks, eventCount } of lanes) {
        expect(tracks.reduce((sum, track) => sum + track.rows.length, 0)).toBe(eventCount);
        for (const [at, { starts, ends, overlaps }] of tracks.entries()) {
          const doOverlap = [...starts].some((start, i) => [...ends.subarray(0, i)].some((end) => end > start));
          expect(doOverlap).toBe(overlaps);
          if (at < TRACKS_MAX - 1) expect(overlaps).toBe(false);
        }
      }
    }),
  );
});

test('a model that a worker has made is moved as a whole, without a copy', () => {
  const events = Array.from({ length: 20 }, (_, i) => made({ start: i, duration: 9, tid: i % 2 }));
  const model = createLanes(columnsOf(events), OF_ORDER);
  const copy = structuredClone(model);
  const moved = structuredClone(model, { transfer: listLanesBuffers(model) });
  expect(moved).toEqual(copy);
  const { starts, peaks } = model.groups[0]!.lanes[0]!.tracks[0]!;
  expect([model.starts, model.columns.start, starts, peaks[0]?.ns ?? []].map(({ length }) => length)).toEqual([
    0, 0, 0, 0,
  ]);
});

test('an event goes to the first track that is free', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(40), fc.nat(30)), { maxLength: 40, size: 'max' }), (pairs) => {
      const sorted = pairs.toSorted(([a, long], [b, other]) => a - b || other - long);
      const starts = Float64Array.from(sorted, ([start]) => start);
      const ends = Float64Array.from(sorted, ([start, length]) => start + length);
      const [type, result] = [new Uint8Array(sorted.length), new Float64Array(sorted.length)];
      const tracks = spread(
        Uint32Array.from(sorted, (_, i) => i),
        { starts, ends, type, result },
      );
      const trackOf = new Map(tracks.flatMap(({ rows }, at) => [...rows].map((row) => [row, at] as const)));
      for (let i = 0; i < sorted.length; i++) {
        const isTaken = (track: number) =>
          sorted.some((_, j) => j < i && trackOf.get(j) === track && ends[j]! > starts[i]!);
        let expected = 0;
        while (expected < TRACKS_MAX - 1 && isTaken(expected)) expected++;
        expect(trackOf.get(i)).toBe(expected);
      }
    }),
  );
});

test('groups come by first event, devices last in their node, and a clock offset changes no order', () => {
  const at = (start: number, more: Partial<MadeEvent>) => made({ start, recordingId: more.node ?? 'n1', ...more });
  const events = [
    at(0, { node: 'n2', service: 'edge', pid: 3 }),
    at(1, { service: 'shop', pid: 7, tid: 9, comm: 'old' }),
    at(2, { service: 'db', pid: 2 }),
    at(3, { service: 'shop', pid: 5 }),
    at(4, { service: 'shop', pid: 7, tid: 8 }),
    at(5, { type: 'block_io', target: 'sdb' }),
    at(6, { type: 'block_io', target: 'sda', transaction: null, service: 'backup' }),
    at(7, { type: 'block_io', target: 'sda' }),
    at(8, { service: 'shop', pid: 7, tid: 9, comm: 'renamed' }),
  ];
  const columns = columnsOf(events);
  const names = (options: LanesOptions) =>
    createLanes(columns, options).groups.flatMap(({ node, process, lanes }) =>
      lanes.map(({ kind, device, tid, comm }) =>
        process
          ? `${node} ${process.service} ${process.pid} ${tid} ${comm}`
          : `${node} ${device} ${kind.split('_')[0]}`,
      ),
    );
  const expected = [
    ...['n2 edge 3 8 worker', 'n1 shop 7 9 renamed', 'n1 shop 7 8 worker', 'n1 shop 5 8 worker', 'n1 db 2 8 worker'],
    ...['n1 sda own', 'n1 sda other', 'n1 sdb own'],
  ];
  expect(names(OF_ORDER)).toEqual(expected);
  const offsets = new Map([['n1', -500n]]);
  expect(names({ ...OF_ORDER, clockOffsetsNs: offsets })).toEqual(expected);
  const { starts, ownSpan, firstNs } = createLanes(columns, { ...OF_ORDER, clockOffsetsNs: offsets });
  expect([...starts]).toEqual([500, 1, 2, 3, 4, 5, 6, 7, 8]);
  expect([ownSpan, firstNs]).toEqual([{ fromNs: 1, toNs: 510 }, 1]);
});

test('clocks that are decades apart are brought together to the nanosecond', () => {
  const yearsNs = 1_763_679_600_000_000_000n;
  const of = (node: string, starts: readonly bigint[]) =>
    starts.map((start) => ({ start, recordingId: node, node, duration: 1 }));
  const columns = columnsOf([...of('n2', [0n, 7n]), ...of('n1', [yearsNs + 3n, yearsNs + 5n])]);
  const startsWith = (offsets: Readonly<Record<string, bigint>>) =>
    createLanes(columns, { ...OF_ORDER, clockOffsetsNs: new Map(Object.entries(offsets)) });
  for (const offsets of [{ n2: yearsNs }, { n1: -yearsNs }, { n1: 4n, n2: yearsNs + 4n }]) {
    const { starts, ownSpan } = startsWith(offsets);
    expect([...starts]).toEqual([0, 7, 3, 5]);
    expect(ownSpan).toEqual({ fromNs: 0, toNs: 8 });
  }
  expect(startsWith({ n2: yearsNs }).baseNs).toBe(columns.baseNs + yearsNs);
});

test('links are exact within a call of the same thread, inferred during a sync, and the same from both ends', () => {
  fc.assert(
    fc.property(manyEvents, (events) => {
      const columns = columnsOf(events);
      const rows = inRows(events, columns);
      const links = createLinks(createLanes(columns, OF_ORDER));
      const kind = (call: MadeEvent, request: MadeEvent) => {
        if (call.type === 'block_io' || request.type !== 'block_io' || call.node !== request.node) return [];
        const [[from, to], [start, end]] = [spanOf(call), spanOf(request)];
        if (call.tid === request.tid && start >= from && start <= to) return ['exact'];
        const both = common(nanoseconds([[from, to]]), nanoseconds([[start, end]]));
        return isOwn(call) && call.type === 'sys_sync' && hasData(request) && both.length > 0 ? ['inferred'] : [];
      };
      for (const [row, one] of rows.entries()) {
        const expected = rows.flatMap((other, at) =>
          [...kind(one, other), ...kind(other, one)].map((found) => ({ row: at, kind: found })),
        );
        const [last, count] = [expected.at(-1) ?? null, expected.length];
        expect(links.findLinks(row)).toEqual({ first: expected, last, count });
        expect(links.findLinks(row, 2)).toEqual({ first: expected.slice(0, 2), last, count });
      }
    }),
    { numRuns: times(100) },
  );
});

test('neighbours are counted by device and service while requests of the transaction are under way', () => {
  fc.assert(
    fc.property(manyEvents, (events) => {
      const columns = columnsOf(events);
      const rows = inRows(events, columns);
      const model = createLanes(columns, OF_ORDER);
      const mine = rows.flatMap((one, row) => (one.type === 'block_io' && (isOwn(one) || hasData(one)) ? [row] : []));
      const counts = new Map<string, number>();
      for (const other of rows) {
        if (other.type !== 'block_io' || isOwn(other) || hasData(other) || isQueued(other)) continue;
        const near = mine
          .map((row) => rows[row]!)
          .filter((one) => one.node === other.node && one.target === other.target);
        if (common(nanoseconds(near.map(spanOf)), nanoseconds([spanOf(other)])).length === 0) continue;
        const key = `${other.node} ${other.target} ${other.service}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      const found = collectNeighbours(model, groupTimesByDevice(model, mine));
      expect(new Map(found.map(({ device, name, count }) => [`${device.node} ${device.name} ${name}`, count]))).toEqual(
        counts,
      );
      expect(found.map(({ count }) => count)).toEqual([...counts.values()].sort((a, b) => b - a));
    }),
    { numRuns: times(60) },
  );
});
