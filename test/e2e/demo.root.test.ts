// Runs `kreplay demo` as a new user does after the build: what it shows is what happened, the commands that it names
// work, and it leaves nothing behind.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { withoutMissedEnds } from '../kernel/missed_ends.ts';
import { AS_NOBODY } from '../unprivileged.ts';
import { endAll, KREPLAY, kreplay, runCommand, start, temporaryFolder } from './kreplay.ts';

const ROOT = resolve(import.meta.dirname, '../..');

const COMMANDS = ['events', 'whatif', 'run'];
const BACKUP_WRITES = 128;

const folder = temporaryFolder();
afterAll(() => {
  endAll();
  folder.remove();
});

/** The commands that the demo prints, for a shell in the project's folder. */
function namedCommands(output: string): string[] {
  return output.split('\n').filter((line) => /^ {2}\S*kreplay /.test(line));
}

function inShell(command: string) {
  return execFileSync('sh', ['-c', command.replace(/^ *\S+/, KREPLAY)], { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' });
}

/** The sentence that says which calls took the time: those of the large file, synced once or written in parts. */
const SLOW_SPOT = new RegExp(`^order-1 of shop: .* in (one fsync|${BACKUP_WRITES} writes) of backup\\.tar`, 'm');

test('it shows the slow spot, its commands work while it serves, and Ctrl-C leaves nothing behind', async () => {
  const demo = start(['demo']);
  await demo.says('Ctrl-C ends it');
  expect(demo.output()).toMatch(/147 writes and syncs, \d+ requests to the disk, none missing\./);
  expect(demo.output()).toMatch(SLOW_SPOT);

  const commands = namedCommands(demo.output());
  expect(commands.map((command) => command.trim().split(' ')[1])).toEqual(COMMANDS);
  const [events, whatIf, run] = commands.map((command) => () => inShell(command)) as [
    () => string,
    ...(() => string)[],
  ];
  expect(whatIf!()).toMatch(/^order-1: 2ms more for \d+ of \d+ events\n/);
  expect(run!()).toBe('');
  const listed = events();
  expect(listed).toContain('backup.tar');
  // Running the order again under its own delays must not be recorded as a second order.
  expect(listed.match(/"event_type":"sys_sync"/g)?.length).toBeLessThanOrEqual(3);

  // A second demo listens on another port, and its commands name it.
  const other = start(['demo']);
  await other.says('Ctrl-C ends it');
  const urls = [demo, other].map((each) => /Or open (\S+)\/#/.exec(each.output())![1]!);
  expect(new Set(urls).size).toBe(2);
  const [othersEvents, ...rest] = namedCommands(other.output());
  expect(inShell(othersEvents!)).toContain('backup.tar');
  for (const command of [othersEvents, ...rest].filter((each) => each!.includes('http')))
    expect(command).toContain(urls[1]);

  const address = /Or open (\S+)/.exec(demo.output())![1]!;
  const page = await fetch(address, { headers: { accept: 'text/html' } });
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  const used = [demo, other].map((each) => /and removes (\S+)\.\n/.exec(each.output())![1]!);
  expect(used.map((path) => existsSync(path))).toEqual([true, true]);
  demo.process.kill('SIGINT');
  other.process.kill('SIGTERM');
  for (const each of [demo, other]) expect(await each.ended).toEqual({ status: 0, signal: null });
  expect(used.map((path) => existsSync(path))).toEqual([false, false]);
  expect(withoutMissedEnds(demo.complaints())).toBe('');
});

test('with --no-serve it ends by itself, and --data keeps the recording without the large files', () => {
  const kept = join(folder.path, "a folder's name");
  const { status, stdout, stderr } = kreplay(['demo', '--no-serve', '--data', kept], { cwd: ROOT });
  expect([status, withoutMissedEnds(stderr)]).toEqual([0, '']);
  expect(readdirSync(kept).sort()).toEqual(expect.arrayContaining(['order.sh', 'recording.kreplay']));
  expect(existsSync(join(kept, 'files'))).toBe(false);
  for (const command of namedCommands(stdout)) expect(command).toContain("a folder'\\''s name");
  for (const command of namedCommands(stdout)) inShell(command);

  // The demo never removes files that were in the folder before it.
  const again = kreplay(['demo', '--no-serve', '--data', kept]);
  expect([again.status, again.stderr]).toEqual([
    1,
    expect.stringMatching(/^kreplay: [^\n]*it is not empty; name a new folder\n$/),
  ]);
});

test('a user without the privileges to record gets instructions in one line', () => {
  const { status, stdout, stderr } = runCommand([...AS_NOBODY, KREPLAY, 'demo']);
  expect([status, stdout]).toEqual([77, '']);
  expect(stderr).toMatch(/^kreplay: [^\n]*try `sudo \S*kreplay demo`[^\n]*run as root[^\n]*doctor`[^\n]*\n$/);
});

test('a closed output leaves nothing behind', () => {
  const { stdout } = runCommand(['sh', '-c', '"$0" demo | head -1', KREPLAY]);
  const used = dirname(/sh (\S+)/.exec(stdout)![1]!);
  expect([used, existsSync(used)]).toEqual([expect.stringContaining('kreplay-demo-'), false]);
});

test('a disk that is too small is reported, and the demo cleans up', () => {
  const small = join(folder.path, 'small');
  mkdirSync(small);
  const mounted = 'mount -t tmpfs -o size=40m tmpfs "$1"; shift; exec "$@"';
  const { status, stderr } = runCommand([
    ...['unshare', '--mount', 'sh', '-ec', mounted, 'sh', small],
    ...[KREPLAY, 'demo', '--no-serve', '--data', join(small, 'data')],
  ]);
  expect([status, stderr]).toEqual([1, expect.stringMatching(/kreplay: sh \S+ ended with 1: the disk may be full/)]);
});

test('the README shows the output of the demo', () => {
  const [, shown = ''] = readFileSync(join(ROOT, 'README.md'), 'utf8').split('\n$ sudo build/kreplay demo\n');
  const [text = ''] = shown.split('\n```');
  expect(text).toMatch(SLOW_SPOT);
  expect(namedCommands(text).map((command) => command.trim().split(' ')[1])).toEqual(COMMANDS);
});
