/** Tests `kreplay run` where it cannot start: clear messages, a code of its own, and the command does not run. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { hosted } from '../hosted.ts';
import { newFolder, recorded, recordingPath, START } from '../recorded.ts';
import { served } from '../served.ts';
import { TRANSACTION } from './planned.ts';

const folder = recorded([
  { at: START, duration: 5_000_000n, transaction: TRANSACTION, file: '/data/a', requested: 64n, fd: 5 },
  { at: START, type: 'block_io', operation: 'read', transaction: 'only-reads' },
]);
const bundle = recordingPath(folder);

/** Expects a refusal: the command, which would create a file, must not run. */
async function refused(...options: string[]) {
  const witness = join(newFolder(), 'witness');
  const ended = await hosted('run', ...options, '--', 'touch', witness);
  expect(existsSync(witness)).toBe(false);
  expect(ended.stdout).toBe('');
  return ended;
}

const of = (transaction: string) => ['--bundle', bundle, '--transaction', transaction];

test('an unknown transaction', async () => {
  const { code, stderr } = await refused(...of('order-2'));
  expect([code, stderr]).toEqual([125, `kreplay: ${bundle} has no events of transaction order-2: check the id\n`]);
  const app = await served(folder);
  const asked = await refused('--url', app.url, '--transaction', 'order-2');
  expect([asked.code, asked.stderr]).toEqual([
    125,
    `kreplay: ${app.url} has no events of transaction order-2: check the id\n`,
  ]);
});

test('a bundle of another version', async () => {
  const path = join(newFolder(), 'future.kreplay');
  writeFileSync(path, readFileSync(bundle));
  const database = new Database(path);
  database.pragma('user_version = 99');
  database.close();
  const { code, stderr } = await refused('--bundle', path, '--transaction', TRANSACTION);
  expect(code).toBe(125);
  expect(stderr).toMatch(/future\.kreplay has format version 99, this kreplay reads 1:/);
});

test.each([
  ['no recording', '/bin/true', /is not a recording|not a kreplay recording|no recording/],
  ['nothing', '/nowhere/x.kreplay', /there is no file \/nowhere\/x.kreplay: give the path of a recording/],
  ['a folder without one', '/usr', /there is no recording at \/usr\/recording.kreplay: give the path of one/],
])('a bundle that is %s', async (_, path, message) => {
  const { code, stderr } = await refused('--bundle', path, '--transaction', TRANSACTION);
  expect(code).toBe(125);
  expect(stderr).toMatch(message);
});

test('a missing daemon', async () => {
  const { code, stderr } = await refused('--url', 'http://127.0.0.1:1', '--transaction', TRANSACTION);
  expect([code, stderr]).toEqual([125, expect.stringContaining('no daemon at http://127.0.0.1:1')]);
});

test('a transaction of which nothing can be replayed is not a pass, and the reports say so', async () => {
  const [report, junit, html] = ['a.json', 'a.xml', 'a.html'].map((name) => join(newFolder(), name)) as [
    string,
    string,
    string,
  ];
  const outputs = ['--report', report, '--junit', junit, '--html', html];
  const { code, stderr } = await refused(...of('only-reads'), ...outputs, '--expect-exit', '0');
  expect(code).toBe(69);
  expect(stderr).toBe(
    'kreplay run: unsupported: nothing in it can be replayed\nkreplay run: not replayable: 1 reads and discards\n',
  );
  expect(JSON.parse(readFileSync(report, 'utf8'))).toMatchObject({
    verdict: 'unsupported',
    ended: null,
    figures: null,
  });
  expect(readFileSync(junit, 'utf8')).toContain('errors="1"');
  expect(readFileSync(html, 'utf8')).toContain('unsupported');
});

test.each([
  [['--transaction', TRANSACTION, '--bundle', 'x', '--url', 'http://h:1'], /cannot be used with/],
  [['--bundle', 'x'], /--transaction/],
  [[...of(TRANSACTION), '--speed', '0'], /must be a number from/],
  [[...of(TRANSACTION), '--inject', 'sys_write:extra=10'], /must have a duration with its unit/],
  [[...of(TRANSACTION), '--fail', 'sys_write:E\u001b'], /must name an error such as ENOSPC or EIO, not E\\u\{1b\}/],
  [[...of(TRANSACTION), '--mode', 'best'], /Allowed choices are auto, align, ordinal, dist, stall/],
  [[...of(TRANSACTION), '--mode', 'stall', '--fail', 'sys_write:EIO'], /no call is a recorded one that could/],
  [[...of(TRANSACTION), '--mode', 'stall', '--unknown', 'class'], /leave --unknown class out/],
  [[...of(TRANSACTION), '--seed', '18446744073709551616'], /must be a whole number from 0 to 18446744073709551615/],
  [[...of(TRANSACTION), '--map', 'here'], /must be HERE=THERE/],
  [[...of(TRANSACTION), '--require', 'diverged'], /Allowed choices are replayed, partial, none/],
  [[...of(TRANSACTION), '--expect-exit', '256'], /must be a number from 0 to 255/],
])('a usage error is not an exit code of the command: %j', async (options, message) => {
  const { code, stderr } = await refused(...options);
  expect(code).toBe(125);
  expect(stderr).toMatch(message);
});

test('0 is a duration, as the help states', async () => {
  for (const option of ['--extra-latency', '--threshold']) {
    const { code, stderr } = await hosted('run', ...of(TRANSACTION), option, '0', '--require', 'none', '--', 'true');
    expect([code, stderr]).toEqual([0, expect.stringContaining('the command ended with 0')]);
  }
});

test('--help prints everything on stdout', async () => {
  const { code, stdout, stderr } = await hosted('run', '--help');
  expect([code, stderr]).toEqual([0, '']);
  for (const option of ['--seed', '--inject', '--vary-latency', '--junit', 'Exit codes'])
    expect(stdout).toContain(option);
});

test('a command without a preceding -- is refused', async () => {
  const { code, stderr } = await hosted('run', ...of(TRANSACTION), 'true');
  expect([code, stderr]).toEqual([125, expect.stringContaining('put -- in front of the command')]);
});

test('a report that cannot be written is detected before the command runs, and nothing remains', async () => {
  const there = newFolder();
  const files = ['--report', join(there, 'a.json'), '--junit', '/nowhere/a.xml'];
  const { code, stderr } = await refused(...of(TRANSACTION), ...files);
  expect([code, stderr]).toEqual([
    125,
    expect.stringContaining('/nowhere/a.xml: its folder does not exist: create it'),
  ]);
  expect(readdirSync(there)).toEqual([]);
});
