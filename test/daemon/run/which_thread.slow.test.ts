/** Tests which thread of the incident a build's thread is matched to, on files that several threads write. */
import { join } from 'node:path';
import { newFolder, START } from '../recorded.ts';
import { inARow, make, SLOW, written } from './calls.ts';
import { MS } from './incident.ts';

let log = '';
beforeEach(() => {
  log = join(newFolder(), 'log');
});

const by = (comm: string, tid = comm.length, more = {}) => written(log, { comm, tid, ...more });
const calls = (...names: readonly string[]) => names.map((name) => ['write', log, name] as const);

describe('on a file with consecutive calls', () => {
  const inTurn = () => inARow([by('alpha'), by('beta'), by('alpha'), by('beta')]);

  test('a call preferably matches one of a thread with its name', async () => {
    const rule = ['--fail', 'sys_write:comm=alpha:EIO'];
    const { felt } = await make(inTurn(), calls('beta', 'alpha', 'beta', 'alpha'), rule);
    expect(felt).toEqual(['quick', 'EIO', 'quick', 'EIO']);
  });

  test('work that other threads do is the same work', async () => {
    const incident = inARow([by('alpha'), by('beta', 4, { duration: SLOW }), by('alpha'), by('beta')]);
    const { felt, result } = await make(incident, calls('other', 'other', 'another', 'other'));
    expect([felt, result.verdict]).toEqual([['quick', 'slow', 'quick', 'quick'], 'replayed']);
  });

  test('the report has the calls of each name', async () => {
    const { result, stderr } = await make(inTurn(), calls('alpha', 'beta', 'alpha', 'beta'));
    expect(
      result.figures!.streams.map(({ role, calls, missing_events }) => [role, calls, missing_events]).sort(),
    ).toEqual([
      ['alpha', 2, 0],
      ['beta', 2, 0],
    ]);
    expect(stderr).not.toContain('never called');
  });
});

test('a rule for a name applies to no thread of another name', async () => {
  const overlapping = inARow([by('alpha', 1, { duration: SLOW }), by('alpha', 2)]).map((row) => ({
    ...row,
    at: row.at - (row.tid === 2 ? 100_000_000n : 0n),
  }));
  for (const incident of [inARow([by('alpha'), by('alpha')]), overlapping]) {
    const failing = await make(incident, calls('beta', 'beta', 'beta'), ['--fail', 'sys_write:comm=alpha:EIO']);
    expect(failing.felt).not.toContain('EIO');
    const slow = await make(incident, calls('beta', 'beta'), [
      '--inject',
      'sys_write:service=shop:comm=alpha:extra=300ms',
    ]);
    expect(slow.felt).toEqual(['quick', 'quick']);
  }
});

test('if the calls of similar threads overlap, their assignment is unknown, and the verdict says so', async () => {
  const atOnce = (...durations: readonly bigint[]) =>
    inARow(durations.map((duration, n) => by(`worker-${n}`, n + 1, { duration }))).map((row, n) => {
      return { ...row, at: START + BigInt(n) * MS };
    });
  const build = calls('worker-0', 'worker-1');
  const { felt, result, stderr } = await make(atOnce(SLOW, 10n * MS), build);
  expect([felt, result.verdict]).toEqual([['slow', 'quick'], 'partial']);
  expect(result.reasons).toEqual([
    'whose 93.5% of what was planned are is not known: several threads alike call on one file at once',
  ]);
  expect(stderr).toContain('100% of 310ms planned went to the calls it belongs to, 93.5% perhaps to those of another');
  // The ambiguity does not matter if all take equally long.
  const even = await make(atOnce(SLOW, SLOW), build);
  expect([even.felt, even.result.verdict, even.result.reasons]).toEqual([['slow', 'slow'], 'replayed', []]);
});
