/**
 * Tests which file of the incident a build's file is matched to, as a real build under `kreplay run` experiences it.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder } from '../recorded.ts';
import { inARow, make, SLOW, synced, written } from './calls.ts';

let folder = '';
beforeEach(() => {
  folder = newFolder();
});
const at = (name: string) => join(folder, name);

describe('a name that stands for one of the incident', () => {
  const incident = () => inARow([written(at('seg-1'), { duration: SLOW }), written(at('seg-1')), written(at('seg-2'))]);

  test('returns its events as soon as a file has that name, and the verdict says so', async () => {
    const { felt, result } = await make(incident(), [
      ['write', at('seg-9')],
      ['write', at('seg-1')],
      ['write', at('seg-1')],
      ['write', at('seg-2')],
    ]);
    expect(felt).toEqual(['slow', 'slow', 'quick', 'quick']);
    expect(result.verdict).toBe('partial');
    expect(result.reasons).toEqual([
      '1 calls were taken for those of files that were written by their own names only later',
    ]);
    expect(result.figures).toMatchObject({ matched_by_duration: 1, how: { exact: 3, extra: 1 } });
  });

  test('has no effect if no file has that name', async () => {
    const { felt, result } = await make(incident(), [
      ['write', at('seg-8')],
      ['write', at('seg-8')],
      ['write', at('seg-9')],
    ]);
    expect([felt, result.verdict, result.reasons]).toEqual([['slow', 'quick', 'quick'], 'replayed', []]);
  });

  test('shares the last one if there are more names than in the incident, and the verdict says so', async () => {
    const { result } = await make(incident(), [
      ['write', at('seg-7')],
      ['write', at('seg-7')],
      ['write', at('seg-8')],
      ['write', at('seg-9')],
    ]);
    expect([result.verdict, result.reasons]).toEqual([
      'partial',
      expect.arrayContaining([
        expect.stringContaining('the names of several files were generated'),
        '1 files share what the incident has of another: there are more of such names than in the incident',
      ]),
    ]);
  });
});

test('a folder that is synced', async () => {
  mkdirSync(at('folder'));
  const incident = inARow([synced(at('folder'), { fileKind: 'directory', duration: SLOW })]);
  const { felt, result } = await make(incident, [['fsync', at('folder')]]);
  expect([felt, result.verdict, result.figures!.how.exact]).toEqual([['slow'], 'replayed', 1]);
});

test('long names with the same beginning are distinct, and one does not stand for the other', async () => {
  const [alpha, beta] = ['alpha.log', 'beta.log'].map((name) => join(folder, `${'d'.repeat(200)}/`.repeat(3), name));
  const incident = inARow([written(alpha!), written(beta!)]);
  const rule = ['--fail', 'sys_write:path=*alpha.log:EIO'];
  expect(
    (
      await make(
        incident,
        [
          ['write', alpha!],
          ['write', beta!],
        ],
        rule,
      )
    ).felt,
  ).toEqual(['EIO', 'quick']);
  const other = await make(inARow([written(alpha!)]), [['write', beta!]], rule);
  expect([other.felt, other.result.figures!.how.no_stream]).toEqual([['quick'], 1]);
});

describe('the addition of a rule with a path applies only to calls on that path', () => {
  test('and not to those on a random name that would otherwise stand for it', async () => {
    const incident = inARow([written(at('seg-1'), { duration: SLOW })]);
    const other = [['write', at('seg-2')]] as const;
    for (const rule of [
      ['--fail', 'sys_write:path=*/seg-1:EIO'],
      ['--inject', 'sys_write:path=*/seg-1:extra=1ms'],
    ]) {
      const { felt, result } = await make(incident, other, rule);
      expect([rule, felt, result.figures!.how.no_stream]).toEqual([rule, ['quick'], 1]);
    }
    expect((await make(incident, other, ['--fail', 'sys_write:path=*/seg-*:EIO'])).felt).toEqual(['EIO']);
  });

  test('and not to those on files that are not in the incident', async () => {
    const incident = inARow([...Array(20).fill(written(at('a'))), written(at('b'))]);
    const options = ['--unknown', 'class', '--inject', `sys_write:path=${at('a')}:extra=300ms`];
    const { felt, result } = await make(
      incident,
      [
        ['write', at('c')],
        ['write', at('a')],
      ],
      options,
    );
    expect([felt, result.figures!.how.class]).toEqual([['quick', 'slow'], 1]);
  });

  test('and not to a sync of the whole machine', async () => {
    const rule = ['--inject', `sys_sync:path=${at('a')}:extra=300ms`];
    const { result } = await make(inARow([synced(at('a'))]), [['sync', '']], rule);
    expect(result.figures).toMatchObject({ injected_ns: 0, how: { no_stream: 1 } });
    const requests = inARow([written(at('a')), { type: 'block_io', tid: 7, comm: 'python3', duration: SLOW }]);
    expect((await make(requests, [['sync', '']])).felt).toEqual(['slow']);
    expect((await make(requests, [['sync', '']], rule)).result.figures!.how.no_stream).toBe(1);
  });
});

describe('syncs without a file', () => {
  const { file: _, ...none } = synced('');

  test('a sync of a descriptor that was not open cannot be repeated', async () => {
    const incident = inARow([
      { ...none, fd: 888, result: -9n },
      { ...none, fd: -1, syscall: 'sync', duration: SLOW },
      { ...none, fd: -1, syscall: 'sync' },
      { ...none, fd: -1, syscall: 'sync' },
    ]);
    const calls = [
      ['fsync', 888],
      ['sync', ''],
      ['sync', ''],
      ['sync', ''],
    ] as const;
    const { felt, result } = await make(incident, calls);
    expect([felt[0], felt[1]]).toEqual(['EBADF', 'slow']);
    expect(result.figures).toMatchObject({ planned_events: 3, fates: { delivered: 3, missing: 0 } });
    expect(result.incident.not_replayable).toMatchObject({ no_file: 1 });
  });

  test('msync is separate, whatever else is done to the file', async () => {
    const incident = inARow([
      { ...none, fd: -1, syscall: 'sync' },
      synced(at('mapped'), { duration: SLOW }),
      { ...none, fd: -1, syscall: 'msync' },
    ]);
    const { felt, result } = await make(incident, [
      ['msync', at('mapped')],
      ['fsync', at('mapped')],
    ]);
    expect([felt[1], result.figures!.how.exact]).toEqual(['slow', 2]);
    expect(result.figures!.slowest[0]).toMatchObject({ op: 'fsync', fate: 'delivered' });
  });
});

test('requested errors that were not returned are counted, and no run with them is a replay', async () => {
  const incident = inARow([
    synced(at('a'), { syscall: 'fdatasync', result: -5n, duration: SLOW }),
    written(at('b'), { result: -28n }),
  ]);
  const { felt, result, stderr } = await make(
    incident,
    [
      ['fsync', at('a')],
      ['write', at('b')],
    ],
    ['--replay-errors'],
  );
  expect(felt).toEqual(['slow', 'ENOSPC']);
  expect(result.figures!.errors).toEqual({ planned: 2, returned: 1, withheld: 1, not_called: 0 });
  expect([result.verdict, result.reasons]).toEqual([
    'partial',
    ['1 of 2 errors were returned: 1 were for another call or file'],
  ]);
  expect(stderr).toContain('kreplay run: 1 of 2 errors were returned: 1 were for another call or file\n');
});

test('two files that the recording cannot distinguish', async () => {
  const incident = inARow([written(at('caf\ufffd'), { duration: SLOW }), synced(at('caf\ufffd'))]);
  const [one, other] = [at('caf\udce9'), at('caf\udce8')];
  const { result } = await make(incident, [
    ['write', one],
    ['write', other],
    ['fsync', one],
    ['fsync', other],
  ]);
  expect(result.figures!.names.unclear).toBe(1);
  expect([result.verdict, result.reasons]).toEqual([
    'partial',
    ['the recording cannot distinguish the names of 1 files from others: not UTF-8, or in too many folders'],
  ]);
});
