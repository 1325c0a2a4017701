/** The sentence with which the page, the API and `kreplay show` begin, and the explanation behind it. */
import fc from 'fast-check';
import { type Explanation, explain } from '../../../../daemon/model/explanation/explain.ts';
import { describeExplanation, type Missing } from '../../../../daemon/model/explanation/sentence.ts';
import { createLanes } from '../../../../daemon/model/lanes/model.ts';
import { times } from '../../../repeats.ts';
import { columnsOf, type MadeEvent, made } from '../columns/made_columns.ts';

const ms = 1_000_000;
const ID = 'order-77';
const own = (start: number, duration: number, more: Partial<MadeEvent> = {}) => ({
  ...{ start: start * ms, duration: duration * ms, transaction: ID, comm: 'walwriter', target: '/srv/db/wal', ...more },
});
const sync = (start: number, duration: number, more: Partial<MadeEvent> = {}) =>
  own(start, duration, { type: 'sys_sync', ...more });
const request = (start: number, duration: number, queue: number, more: Partial<MadeEvent> = {}) =>
  own(start, duration, { type: 'block_io', queue: queue * ms, target: 'nvme1n1', ...more });
const backup = { transaction: null, source: 'none', service: 'backup' };
const WHOLE: Missing = { isOthersCut: false, inProgressCount: 0, isIncomplete: false };
const many = <Item>(count: number, build: (i: number) => Item) => Array.from({ length: count }, (_, i) => build(i));

function explainEvents(events: readonly Partial<MadeEvent>[]): Explanation | null {
  return explain(createLanes(columnsOf(events), { transactions: new Set([ID]) }));
}

const describeEvents = (events: readonly Partial<MadeEvent>[], shown = (name: string) => name) =>
  describeExplanation(explainEvents(events), ID, shown, WHOLE);

test.each<[string, Partial<MadeEvent>[], string]>([
  [
    'the call with the most time, not the most frequent one',
    [...many(1000, (i) => own(i / 1000, 0.0005)), sync(1, 1.07), sync(2.1, 231.9, { operation: 'fdatasync' })],
    '231.9 of 234.0 ms in one fdatasync of wal, mostly with no request of its own under way.',
  ],
  [
    'the device, and whose requests were there',
    [
      ...[0, 40, 80].flatMap((start) => [sync(start, 33), request(start + 1, 31, 30)]),
      ...many(8, (i) => request(i * 10, 20, 5, { ...backup, tid: 90 })),
    ],
    "99.0 of 113.0 ms in 3 fsyncs of wal, up to 33.0 ms each, mostly waiting in nvme1n1's queue; " +
      'backup had 8 requests on nvme1n1 meanwhile.',
  ],
  [
    'a device at work',
    [sync(0, 10), request(0, 9, 1)],
    '10.0 of 10.0 ms in one fsync of wal, mostly nvme1n1 at work on its requests.',
  ],
  ['writes', [own(0, 6), own(7, 3)], '9.00 of 10.0 ms in 2 writes of wal, up to 6.00 ms each.'],
  [
    'calls of one name on many files',
    many(5, (i) => own(2 * i, i === 3 ? 2.5 : 2, { target: `/srv/f${i}` })),
    '10.0 of 10.0 ms in 5 writes of 5 files, the longest 2.50 ms in one write of f3.',
  ],
  [
    'calls of several names on many files',
    many(6, (i) => own(2 * i, 2, { type: i % 2 ? 'sys_sync' : 'sys_write', target: `/srv/f${i}` })),
    '6.00 of 12.0 ms in 3 writes of 3 files, the longest 2.00 ms in one write of f0.',
  ],
  [
    'a call on no known file',
    [sync(0, 10, { operation: 'sync', target: null })],
    '10.0 of 10.0 ms in one sync by walwriter, mostly with no request of its own under way.',
  ],
  [
    'calls on unknown files of several programs',
    [
      sync(0, 40, { target: null, comm: 'a', tid: 1 }),
      ...[sync(40, 30, { target: null, comm: 'b', tid: 2 }), sync(70, 30, { target: null, comm: 'c', tid: 3 })],
    ],
    '100.0 of 100.0 ms in 3 fsyncs by 3 programs, the longest 40.0 ms in one fsync by a, mostly with no request of its own under way.',
  ],
  [
    'files of one path on several nodes',
    ['n1', 'n2', 'n3'].map((node, i) => own(i * 10, 10, { node, tid: i })),
    '30.0 of 30.0 ms in 3 writes of 3 files, the longest 10.0 ms in one write of wal.',
  ],
  [
    'a write beside the sync of another thread, whose requests it does not wait for',
    [
      own(0, 100, { target: '/srv/a', tid: 1 }),
      ...[sync(0, 90, { target: '/srv/b', tid: 2 }), request(0, 88, 85, { tid: 2, queuedBy: ID })],
    ],
    '100.0 of 100.0 ms in one write of a.',
  ],
  [
    'neighbours that came only when its calls had ended',
    [
      ...[sync(0, 60), request(0, 60, 60), request(60, 50, 10, { queuedBy: ID })],
      ...many(40, () => request(62, 5, 0, backup)),
    ],
    "60.0 of 110.0 ms in one fsync of wal, mostly waiting in nvme1n1's queue.",
  ],
  [
    'neighbours on another node, on a device of the same name',
    [
      ...[sync(0, 200), request(1, 198, 190), own(0, 1, { node: 'n2', tid: 3 })],
      ...[request(1, 1, 0, { node: 'n2', tid: 3 }), ...many(4, () => request(0, 1, 0, { ...backup, node: 'n2' }))],
    ],
    '200.0 of 200.0 ms in one fsync of wal, mostly waiting in the queue of nvme1n1 of n1.',
  ],
  [
    'the device that worked longest, not the one with the longest queue',
    [sync(0, 100), request(0, 70, 40, { target: 'vda' }), request(40, 60, 0, { target: 'vdb' })],
    '100.0 of 100.0 ms in one fsync of wal, mostly vdb at work on its requests.',
  ],
  [
    'queues of several devices',
    [sync(0, 100), request(0, 30, 30, { target: 'sda' }), request(30, 30, 30, { target: 'sdb' })],
    '100.0 of 100.0 ms in one fsync of wal, mostly waiting in the queue of several devices.',
  ],
  [
    'requests of the kernel with its data, which it may have waited for',
    [sync(0, 200), request(10, 180, 0, { source: 'origin', tid: 99, comm: 'kworker' })],
    '200.0 of 200.0 ms in one fsync of wal, mostly while nvme1n1 had requests with its data, for which it may have waited.',
  ],
  [
    'what is not recorded',
    [own(0, 1), own(9, 1)],
    '8.00 of 10.0 ms on a CPU, or on something that is not recorded; 2.00 ms in 2 writes of wal, up to 1.00 ms each.',
  ],
  [
    'others beside the one with the most requests',
    [
      ...[own(0, 10), request(0, 10, 10), request(0, 5, 0, { ...backup, service: 'vacuum' })],
      ...[request(1, 5, 0, backup), request(2, 5, 0, backup)],
    ],
    "10.0 of 10.0 ms in one write of wal, mostly waiting in nvme1n1's queue; " +
      'backup had 2 requests on nvme1n1, and others 1 meanwhile.',
  ],
  [
    'requests between its calls',
    [request(0, 10, 10), request(0, 5, 0, backup)],
    '10.0 of 10.0 ms with requests to nvme1n1 under way outside its calls, for which it may have waited; ' +
      'backup had 1 request on nvme1n1 meanwhile.',
  ],
  [
    'what it reads ahead while it works',
    [own(0, 1), request(2, 7, 3), own(3, 1), own(9, 1)],
    '7.00 of 10.0 ms on a CPU, or on something that is not recorded; 3.00 ms in 3 writes of wal, up to 1.00 ms each.',
  ],
  [
    'requests of others on a device that it never used',
    [sync(0, 10), request(0, 9, 1), request(0, 5, 0, { ...backup, target: 'loop1' })],
    '10.0 of 10.0 ms in one fsync of wal, mostly nvme1n1 at work on its requests.',
  ],
  [
    'requests of others that ended before its call',
    [own(0, 1), request(0, 1, 0, backup), sync(8, 92), request(9, 90, 80)],
    "92.0 of 100.0 ms in one fsync of wal, mostly waiting in nvme1n1's queue.",
  ],
  [
    'failures',
    [own(0, 10), own(1, 1, { result: -28, tid: 9 })],
    '10.0 of 10.0 ms in 2 writes of wal, up to 10.0 ms each. 1 write of walwriter failed with ENOSPC.',
  ],
  [
    'minutes',
    [sync(0, 125_000), own(125_000, 4_000, { target: '/srv/b' })],
    '2 min 5 s of 2 min 9 s in one fsync of wal, mostly with no request of its own under way.',
  ],
  [
    'an id that is used again',
    [sync(0, 300), sync(13_300, 500)],
    '2 bursts of calls, 13.0 s apart, as when an id is used again; ' +
      '13.0 of 13.8 s on a CPU, or on something that is not recorded; 800.0 ms in 2 fsyncs of wal, up to 500.0 ms each.',
  ],
])('says what it was for %s', (_, events, expected) => {
  expect(describeEvents(events)).toBe(`${ID} of shop: ${expected}`);
});

test('says that nothing is there, and passes every name through what makes it safe', () => {
  expect(describeEvents([made(backup)])).toBe(`Nothing that ${ID} itself did is here.`);
  expect(describeEvents([own(0, 0)])).toBe(`${ID} of shop took 0 ns.`);
  const evil = '\u202eevil';
  const hostile = [
    own(0, 1, { comm: evil, service: evil, target: `/srv/${evil}` }),
    own(0, 1, { result: -28, comm: evil, target: null }),
    request(0, 1, 0, { target: evil, queuedBy: ID }),
    request(0, 1, 0, { ...backup, service: evil, target: evil }),
  ];
  const text = describeEvents(hostile, (name) => name.replaceAll('\u202e', '?'));
  expect(text).toContain('?evil');
  expect(text).not.toContain('\u202e');
});

/** Small times, so that a set of single nanoseconds stands for a union. */
const call = fc.record({
  start: fc.nat(60),
  duration: fc.nat(25),
  type: fc.constantFrom('sys_write' as const, 'sys_sync' as const),
  tid: fc.constantFrom(8, 9),
  target: fc.constantFrom('/a', '/b', null),
  transaction: fc.constantFrom(ID, 'other'),
});

test('the named calls are of one kind or all, and their time is that of their union', () => {
  fc.assert(
    fc.property(fc.array(call, { maxLength: 20 }), (events) => {
      const found = explainEvents(events);
      const mine = events.filter(({ transaction }) => transaction === ID);
      if (!found) return expect(mine).toEqual([]);
      const isNamed = ({ type, target }: (typeof events)[number]) => {
        const { call, file, fileCount, unknownComms, longest } = found.calls!;
        if (call !== null && call !== (type === 'sys_sync' ? 'fsync' : 'write')) return false;
        return fileCount + unknownComms.length !== 1 || target === (file ?? longest.file);
      };
      const named = mine.filter(isNamed);
      const covered = (some: typeof events) =>
        new Set(some.flatMap(({ start, duration }) => many(duration, (i) => start + i))).size;
      expect(found.calls!.count).toBe(named.length);
      expect(found.calls!.timeNs).toBe(covered(named));
      expect(2 * covered(named)).toBeGreaterThanOrEqual(covered(mine));
      expect(found.calls!.longest.durationNs).toBe(Math.max(...named.map(({ duration }) => duration)));
      expect(Object.values(found.breakdown.parts).reduce((sum, ns) => sum + ns, 0)).toBe(found.breakdown.durationNs);
    }),
    { numRuns: times(100) },
  );
});

test('what is missing is part of the sentence', () => {
  const text = (missing: Partial<Missing>) =>
    describeExplanation(explainEvents([sync(0, 10), request(0, 9, 1), request(0, 5, 0, backup)]), ID, (name) => name, {
      ...WHOLE,
      ...missing,
    });
  expect(text({ inProgressCount: 1, isIncomplete: true })).toMatch(/ meanwhile\. 1 call has not ended yet\.$/);
  expect(text({ inProgressCount: 2 })).toMatch(/ 2 calls have not ended yet\.$/);
  expect(text({ isIncomplete: true })).toMatch(/ Events of this time are missing\.$/);
  expect(text({ isOthersCut: true })).toMatch(/; backup had at least 1 request on nvme1n1 meanwhile\.$/);
  const ofTwo = explainEvents([
    sync(0, 10),
    request(0, 9, 1),
    request(0, 5, 0, backup),
    request(0, 5, 0, { ...backup, service: 'cron' }),
  ]);
  expect(describeExplanation(ofTwo, ID, (name) => name, { ...WHOLE, isOthersCut: true })).toMatch(
    / had at least 1 request on nvme1n1, and others at least 1 meanwhile\.$/,
  );
});

test('bursts divide all own events where nothing went on for longer than they take together', () => {
  const bursts = (events: readonly Partial<MadeEvent>[]) => explainEvents(events)!.bursts;
  expect(bursts([own(0, 1), own(900, 1)])).toHaveLength(1);
  expect(bursts([own(0, 600), own(1700, 600)])).toHaveLength(1);
  const three = bursts([own(0, 10), own(5, 10), own(5000, 10), own(9000, 10)]);
  expect(three).toEqual([
    { fromNs: 0, toNs: 15 * ms, count: 2 },
    { fromNs: 5000 * ms, toNs: 5010 * ms, count: 1 },
    { fromNs: 9000 * ms, toNs: 9010 * ms, count: 1 },
  ]);
});
