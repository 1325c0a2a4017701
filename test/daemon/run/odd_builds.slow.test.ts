/** Tests builds that do odd things, and a full disk: clear messages, the right exit code, and nothing left behind. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileC } from '../../native/runner/run.ts';
import { openPane } from '../cli/player/tmux.ts';
import { type Ended, startWith } from '../command_line.ts';
import { newSmallDisk } from '../export/small_disk.ts';
import { newFolder } from '../recorded.ts';
import { bundleOf, writesTo } from './incident.ts';
import { allGone, marked } from './left_behind.ts';
import { TRANSACTION } from './planned.ts';

const ROOT = join(import.meta.dirname, '../../..');

let build: string;
let file: string;
let temporary: string;
let incident: string[];
beforeAll(() => {
  build = compileC('build_under_test');
});
beforeEach(() => {
  const folder = newFolder();
  [file, temporary] = [join(folder, 'out'), join(folder, 'tmp')];
  mkdirSync(temporary);
  incident = ['--bundle', bundleOf(writesTo(file, [20, 20, 20])), '--transaction', TRANSACTION];
});

function begin(word: string, options: readonly string[], command: readonly string[]) {
  return startWith({ TMPDIR: temporary, MARK: word }, 'run', ...incident, ...options, '--', ...command);
}

/** Runs to the end, and checks that nothing is left behind. */
async function run(command: readonly string[], options: readonly string[] = []): Promise<Ended> {
  const word = marked();
  const ended = await begin(word, options, command).ended;
  await allGone(word);
  expect(readdirSync(temporary)).toEqual([]);
  return ended;
}

test('a build that crashes', async () => {
  const { code, stderr } = await run([build, 'crash']);
  expect([code, stderr]).toEqual([139, expect.stringMatching(/kreplay run: the command ended with 139 after/)]);
});

test('a build that closes all its descriptors is delayed nevertheless', async () => {
  const { code, stderr } = await run([build, 'close_all', file, '3', '4096']);
  expect([code, stderr]).toEqual([0, expect.stringContaining('100% of 60ms planned')]);
});

test('a build with its own seccomp filter', async () => {
  const { code, stdout } = await run([build, 'own_filter', file, '3', '4096']);
  const felt = stdout.trim().split('\n').map(Number);
  expect([code, felt.length]).toEqual([0, 3]);
  expect(Math.min(...felt)).toBeGreaterThan(18e6);
});

test('a build that asks for its own seccomp listener learns why it gets none', async () => {
  const { code, stdout, stderr } = await run([build, 'own_listener', file, '3', '4096']);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^EBUSY\n/)]);
  expect(stderr).toContain(
    'kreplay run: the command asked once for a seccomp listener of its own, which is not possible under kreplay run (EBUSY)\n',
  );
});

test('a build that leaves a daemon behind: it may finish for some seconds, then it is terminated', async () => {
  // The daemon's time does not count as the command's.
  const gates = ['--max-duration', '3s', '--require', 'none'];
  const { code, stderr } = await run([build, 'daemon', file], gates);
  expect([code, stderr]).toEqual([0, expect.stringContaining('--max-duration: met')]);
  expect(readFileSync(file).length).toBeGreaterThan(3);
});

test('a build that ignores SIGTERM, and its child in another session', async () => {
  const word = marked();
  const running = begin(word, [], [build, 'ignore_term']);
  await running.printed(/ready/);
  running.child.kill('SIGTERM');
  expect((await running.ended).code).toBe(137);
  await allGone(word);
  expect(readdirSync(temporary)).toEqual([]);
});

test('Ctrl-C on a terminal ends the command, and kreplay reports how', async () => {
  const word = marked();
  const pane = await openPane({ MARK: word, TMPDIR: temporary });
  try {
    const command = [process.execPath, join(ROOT, 'kreplay.ts'), 'run', ...incident, '--', 'cat'];
    // The shell reads no more once it has begun: what is typed then is the command's.
    await pane.type(`clear; echo begun; ${command.join(' ')}; echo "code $?"`);
    await pane.shows(/^begun/);
    await pane.type('typed');
    // The terminal shows what is typed, and the command repeats it.
    await pane.shows(/typed\s+typed\s/);
    await pane.press('C-c');
    expect(await pane.shows(/code \d+/)).toMatch(/kreplay run: the command ended with 130[\s\S]*code 130/);
  } finally {
    await pane.close();
  }
  await allGone(word);
  expect(readdirSync(temporary)).toEqual([]);
});

test('a full disk for --report: the command runs normally, then the problem is reported, and no partial report remains', async () => {
  const disk = newSmallDisk(64);
  const report = join(disk, 'report.json');
  spawnSync('sh', ['-c', `cat /dev/zero > ${disk}/full`]);
  const { code, stderr } = await run([build, 'writes', file, '3', '4096'], ['--report', report]);
  expect([code, readFileSync(file).length]).toEqual([125, 3 * 4096]);
  expect(stderr).toMatch(/kreplay run: 100% of 60ms planned/);
  expect(stderr.trim().split('\n').at(-1)).toMatch(/^kreplay: .*report\.json.*(no space|full)/i);
  expect(readdirSync(disk)).toEqual(['full']);
});

test('an empty name of a transaction', async () => {
  incident[3] = '';
  const { code, stderr } = await run(['touch', file]);
  expect([code, stderr]).toEqual([125, expect.stringMatching(/^kreplay: .* no events of transaction/)]);
});
