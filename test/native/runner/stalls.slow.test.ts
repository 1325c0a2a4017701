/**
 * Tests mode stall: how long a call at a given time is held, without a build and against a plain search of all events.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { MATCH_KINDS } from '../../../daemon/run/format/report_file.ts';
import { times } from '../../repeats.ts';
import { compileMatchDriver } from './match_driver.ts';
import { type PlannedThread, planOf } from './plans.ts';
import { newFolder, removeFolder } from './run.ts';

/** Arbitrary clock value at the first call. */
const BEGAN = 5_000_000;

let driver = '';
let folder = '';
beforeAll(() => {
  driver = compileMatchDriver();
  folder = newFolder();
});
afterAll(() => removeFolder(folder));

interface Call {
  file: string;
  isSync?: boolean;
  at: number;
}

/** Times of calls are relative to the first call of a recorded file. */
function held(
  threads: readonly PlannedThread[],
  calls: readonly Call[],
  threshold = 0,
): { how: number; target: number }[] {
  const plan = join(folder, 'plan');
  writeFileSync(plan, planOf(threads));
  const lines = calls.map(({ file, isSync = false, at }) => `${file} ${isSync ? 1 : 0} ${BEGAN + at}\n`);
  const output = execFileSync(driver, ['stall', plan, `${threshold}`], { input: lines.join(''), encoding: 'utf8' });
  return output
    .split('\n')
    .slice(0, -1)
    .map((line) => {
      const [how, , target] = line.split(' ').map(Number);
      return { how: how!, target: target! };
    });
}

const targets = (...of: Parameters<typeof held>) => held(...of).map(({ target }) => target);
const event = (offsetNs: number, targetNs: number) => ({ offsetNs, targetNs });

test('a call is held until the last pending one has ended, and one outside the stall not at all', () => {
  const threads = [
    { path: '/a', tid: 1, calls: [event(0, 100), event(1000, 10)] },
    { path: '/a', tid: 2, calls: [event(50, 200)] },
  ];
  const at = [0, 40, 60, 249, 250, 999, 1005, 5000];
  expect(
    targets(
      threads,
      at.map((time) => ({ file: '/a', at: time })),
    ),
  ).toEqual([100, 60, 190, 1, 0, 0, 5, 0]);
});

test('other paths and syncs have their own stalls, and unknown ones have none and do not start the time', () => {
  const threads: PlannedThread[] = [
    { path: '/a', calls: [event(0, 100)] },
    { path: '/b', calls: [event(0, 300)] },
    { path: '/a', op: 'fsync', calls: [event(0, 500)] },
  ];
  const calls = [
    { file: '/unknown', at: 0 },
    { file: '/a', at: 1000 },
    { file: '/b', at: 1010 },
    { file: '/a', isSync: true, at: 1010 },
  ];
  expect(held(threads, calls)).toEqual([
    { how: MATCH_KINDS.no_stream, target: 0 },
    { how: MATCH_KINDS.stall, target: 100 },
    { how: MATCH_KINDS.stall, target: 290 },
    { how: MATCH_KINDS.stall, target: 490 },
  ]);
});

test('only events above the threshold hold calls, for their remaining time', () => {
  const threads = [{ path: '/a', calls: [event(0, 50), event(60, 100)] }];
  expect(
    targets(
      threads,
      [0, 10, 150].map((at) => ({ file: '/a', at })),
      100,
    ),
  ).toEqual([0, 0, 10]);
});

test('agrees with a simple search', () => {
  const events = fc.array(fc.record({ offsetNs: fc.nat(1000), targetNs: fc.nat(300) }), {
    minLength: 1,
    maxLength: 12,
  });
  const threads = fc.array(events, { minLength: 1, maxLength: 4 });
  const moments = fc.array(fc.nat(1500), { maxLength: 20 });
  fc.assert(
    fc.property(threads, moments, (all, later) => {
      const plan = all.map((calls, tid) => ({
        path: '/a',
        tid: tid + 1,
        calls: calls.toSorted((a, b) => a.offsetNs - b.offsetNs),
      }));
      const calls = [0, ...later].map((at) => ({ file: '/a', at }));
      const expected = calls.map(({ at }) =>
        Math.max(
          0,
          ...all.flat().flatMap(({ offsetNs, targetNs }) => (offsetNs <= at ? [offsetNs + targetNs - at] : [])),
        ),
      );
      expect(targets(plan, calls)).toEqual(expected);
    }),
    { numRuns: times(30) },
  );
});
