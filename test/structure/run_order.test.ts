/** Which suites of a run are beside each other: by the words in their names, and while CPUs idle. */
import fc from 'fast-check';
import { watchCpus } from '../jest/cpus.ts';
import { newQueue } from '../jest/queue.ts';

const suite = (name: string) => ({ path: `/tests/${name}.test.ts` });
const RECORDERS = ['a.root', 'b.root', 'c.root.fleet', 'd.root.long'];
const OTHERS = ['e', 'f.slow', 'g.root.beside', 'h.root.beside.fleet', 'i.page', 'j.page.fleet', 'k.fleet', 'l.page'];
const ALONE = ['m.alone', 'n.root.alone'];
const ALL = [...ALONE, ...OTHERS, ...RECORDERS].map(suite);

const isOf = (names: readonly string[]) => {
  const paths = new Set(names.map((name) => suite(name).path));
  return ({ path }: { path: string }) => paths.has(path);
};

test('any order of starts and ends runs each suite once, recorders one at a time, and the suites alone last', () => {
  fc.assert(
    fc.property(fc.shuffledSubarray(ALL), fc.array(fc.nat(99)), fc.integer({ min: 1, max: 5 }), (tests, ends, most) => {
      const queue = newQueue(tests);
      const running: typeof tests = [];
      const started: typeof tests = [];
      while (started.length < tests.length || running.length > 0) {
        const next = running.length < most ? queue.take(running) : undefined;
        if (next === undefined) {
          // Whatever is refused, is refused for the sake of one that runs.
          expect(running.length).toBeGreaterThan(0);
          running.splice((ends.pop() ?? 0) % running.length, 1);
          continue;
        }
        started.push(next);
        running.push(next);
        expect(running.filter(isOf(RECORDERS)).length).toBeLessThanOrEqual(1);
        if (running.some(isOf(ALONE))) expect(running).toHaveLength(1);
      }
      expect(new Set(started)).toEqual(new Set(tests));
      expect(started).toHaveLength(tests.length);
      const firstAlone = started.findIndex(isOf(ALONE));
      if (firstAlone >= 0) expect(started.slice(firstAlone).filter((one) => !isOf(ALONE)(one))).toEqual([]);
    }),
  );
});

test('a recorder starts as soon as the one before has ended', () => {
  const queue = newQueue([suite('x'), suite('b.root'), suite('y.slow'), suite('a.root')]);
  const taken = (running: { path: string }[]) => queue.take(running)?.path;
  expect(taken([])).toBe(suite('b.root').path);
  expect(taken([suite('b.root')])).toBe(suite('y.slow').path);
  expect(taken([suite('y.slow')])).toBe(suite('a.root').path);
  expect(taken([suite('y.slow'), suite('a.root')])).toBe(suite('x').path);
  expect(taken([])).toBeUndefined();
});

test('CPUs idle by what the kernel has counted since the last start, and no sooner than is asked', () => {
  let [busy, idle, iowait, nowMs] = [1000, 1000, 1000, 0];
  const stat = () => `cpu  ${busy} 0 0 ${idle} ${iowait} 0 0 0 50 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n`;
  const cpus = watchCpus(stat, () => nowMs);
  [busy, idle, iowait, nowMs] = [1060, 1030, 1010, 999];
  expect(cpus.idleShare(1000)).toBe(0);
  nowMs = 1000;
  expect(cpus.idleShare(1000)).toBeCloseTo(0.4);
  [busy, nowMs] = [1160, 2000];
  expect(cpus.idleShare(1000)).toBe(0);
  [idle, nowMs] = [1130, 2500];
  cpus.restart();
  [busy, idle, nowMs] = [1170, 1140, 3500];
  expect(cpus.idleShare(1000)).toBeCloseTo(0.5);
});
