/** Tests calls that the helper makes in place of the build: on the build's own open files and on no others. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EVENT_FLAGS, OPS } from '../../../daemon/run/format/plan_file.ts';
import { planOf } from './plans.ts';
import { compileC, newFolder, readReport, removeFolder, run } from './run.ts';

const CALLS = 4;
const MS = 1_000_000;

let program = '';
let folder = '';
beforeAll(() => {
  program = compileC('reused_tid', [], []);
});
beforeEach(() => {
  folder = newFolder();
});
afterEach(() => removeFolder(folder));

const short = Array.from({ length: CALLS }, () => ({ flags: EVENT_FLAGS.short_write }));
const slow = Array.from({ length: CALLS }, () => ({ targetNs: MS }));

describe.each([
  ['is reused in another process', 'reused', 'as it is'],
  ['is reused in another process', 'reused', 'before 6.9'],
  ['belongs to a thread with its own descriptor table', 'own', 'as it is'],
  ['belongs to a thread with its own descriptor table', 'own', 'before 6.9'],
])('if a number %s', (_, how, kernel) => {
  test(`only the file of the caller is written and synced, on a kernel ${kernel}`, async () => {
    const [others, mine] = ['others', 'mine'].map((name) => join(folder, name)) as [string, string];
    const trace = join(folder, 'trace');
    const comm = 'reused_tid';
    const ended = await run(folder, {
      plan: planOf([
        { path: mine, comm, calls: short },
        { path: mine, comm, op: 'fsync', calls: slow },
        { path: others, comm, op: 'fsync', calls: slow },
      ]),
      before: [
        ...['unshare', '--pid', '--fork', '--mount-proc'],
        ...['strace', '-f', '-y', '-o', trace, '-e', 'trace=fsync'],
        ...(kernel === 'before 6.9' ? [compileC('no_thread_pidfd')] : []),
      ],
      command: [program, how, others, mine],
    });
    expect([ended.code, ended.stderr]).toEqual([0, '']);
    // Before 6.9 there is no PIDFD_THREAD: the kernel hands out only the files of the process, not of a thread.
    const isMade = how === 'reused' || kernel === 'as it is';
    const ofOthers = how === 'reused' ? CALLS : 0;
    expect(readFileSync(others, 'latin1')).toBe('other'.repeat(ofOthers));
    expect(readFileSync(mine, 'latin1')).toBe((isMade ? 'mi' : 'mine').repeat(CALLS));
    const lines = readFileSync(trace, 'utf8').split('\n');
    const synced = (file: string) => lines.filter((line) => /fsync\(/.test(line) && line.includes(`<${file}>`)).length;
    // The trace has the build's own call and the one that the helper made for it.
    expect([synced(others), synced(mine)]).toEqual([2 * ofOthers, (isMade ? 2 : 1) * CALLS]);
    const { calls } = readReport(join(folder, 'report'));
    const made = calls.filter(({ op, native_ns }) => op === OPS.fsync && native_ns > 0n);
    expect(made.length).toBe(ofOthers + (isMade ? CALLS : 0));
  });
});
