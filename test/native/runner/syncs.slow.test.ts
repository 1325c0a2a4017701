/**
 * Tests which recorded sync a build's sync is matched to, on a file with sequential calls: syncs.c, driven by lines.
 */
import { endMatching, type MODES, match, startMatching } from './match_driver.ts';
import type { PlannedThread } from './plans.ts';

beforeAll(startMatching);
afterAll(endMatching);

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('syncs of a file with consecutive calls', () => {
  const log = { path: '/data/log', comm: 'db', isInOrder: true };

  /** Parses a line of calls: a number is a write of that size, `s` a sync, and `@2` a call by thread 2. */
  function planned(line: string): PlannedThread[] {
    const calls = line.split(' ').map((call, i) => ({ call, offsetNs: i * 1000 }));
    const of = (isSync: boolean) => calls.filter(({ call }) => (call === 's') === isSync);
    return [
      { ...log, calls: of(false).map(({ call, offsetNs }) => ({ size: Number(call), offsetNs })) },
      { ...log, op: 'fdatasync', calls: of(true).map(({ offsetNs }) => ({ offsetNs })) },
    ];
  }

  /** Index in the plan of each sync that is made, or -1. */
  function syncsMatched(plan: string, line: string, mode: keyof typeof MODES = 'align'): number[] {
    const writes = plan.split(' ').filter((call) => call !== 's').length;
    const calls = line.split(' ');
    const made = calls.map((call) => {
      const [what, tid = 1] = call.split('@');
      return { isSync: what === 's', size: what === 's' ? undefined : Number(what), tid: Number(tid) };
    });
    // Events of writes come first in the plan.
    return match(planned(plan), made, mode)
      .filter((_, i) => made[i]!.isSync)
      .map(({ event }) => (event === -1 ? -1 : event - writes));
  }

  test.each([
    ['the same', '1 s 2 s 3 s', '1 s 2 s 3 s', [0, 1, 2]],
    ['a write of its own that is new', '10 s 2000 s 10 s', '999999 s 10 s 2000 s 10 s', [0, -1, 1, 2]],
    ['two that were one', '300 s 120 s 184 s 184 s', '56 s 300 s 120 s 184 s 184 s', [0, -1, 1, 2, 3]],
    ['one that is gone', '10 s 2000 s 30000 s 10 s', '10 s 30000 s 10 s', [0, 2, 3]],
    ['several writes before each', '1 20 s 300 s 4000 s', '1 20 s 300 s 4000 s', [0, 1, 2]],
    ['one more sync of the same writes', '1 s 20 s 300 s', '1 s s 20 s 300 s', [0, 1, -1, 2]],
    ['two in a row, as in the incident', '1 s s 20 s s 300 s', '1 s s 20 s s 300 s', [0, 1, 2, 3, 4]],
    ['writes of two threads before their syncs', '1 s 20 s 300 s', '1@1 20@2 s@2 s@1 300@1 s@1', [1, 0, 2]],
    ['writes whose syncs other threads make', '1 s 20 s 300 s', '1@1 s@2 20@3 s@1 300@2 s@4', [0, 1, 2]],
    ['one sync of what had one each', '1 s 20 s 300 s 4000 s', '1 20 s 300 s 4000 s', [0, 2, 3]],
    ['the same by a thread that only syncs', '1 s 20 s 300 s 4000 s', '1 20 s@2 300 s@2 4000 s@2', [0, 2, 3]],
    ['syncs without a write', 's s s', 's s s', [0, 1, 2]],
    ['writes that all have other sizes', '1 s 1 s 1 s', '1000 s 1000 s 1000 s', [0, 1, 2]],
  ])('%s', (_name, plan, made, expected) => expect(syncsMatched(plan, made)).toEqual(expected));

  test('by their numbers, if that is requested', () => {
    expect(syncsMatched('10 s 2000 s 10 s', '999999 s 10 s 2000 s', 'ordinal')).toEqual([0, 1, 2]);
  });

  test('a hundred new ones shift none', () => {
    const own = range(500).map((i) => `${100 + (i % 3)} s`);
    const made = own.flatMap((call, i) => (i % 5 === 2 ? ['7000000 s', call] : [call]));
    const matched = syncsMatched(own.join(' '), made.join(' '));
    const ofOwn = matched.filter((_, i) => made[i] !== '7000000 s');
    expect(ofOwn.filter((event, i) => event !== i && event !== -1)).toEqual([]);
    // A new sync may take the recorded one of the next write, which then looks like its neighbours.
    expect(ofOwn.filter((event) => event === -1).length).toBeLessThanOrEqual(100);
  });
});
