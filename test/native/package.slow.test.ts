/*
 * Tests the package as a user gets it: its contents, that it installs into an empty folder without a script, a compiler
 * or another package, and that the README's first example counts system calls there.
 */
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { root } from './compile.ts';

const run = promisify(execFile);
const PACKAGE = resolve(root, 'native');
const README = readFileSync(join(PACKAGE, 'README.md'), 'utf8');
/** A system call that other programs hardly ever make. */
const GETSID = 124;
const CALLS = 10_007;

let folder: string;
let files: string[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'libbpf-ts-'));
  const packed = npm(PACKAGE, 'pack', '--json', '--pack-destination', folder);
  const [{ filename, files: inside }] = JSON.parse(packed) as [{ filename: string; files: { path: string }[] }];
  files = inside.map(({ path }) => path);
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}');
  npm(folder, 'install', '--offline', '--no-audit', '--no-fund', join(folder, filename));
});

afterAll(() => rmSync(folder, { recursive: true }));

function npm(cwd: string, ...args: string[]): string {
  return execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

test('it has the addon, its compiled types, the documents, and nothing else', () => {
  const modules = [
    'addon',
    'errors',
    'features',
    'index',
    'kernel',
    'kernel_types',
    'map',
    'object',
    'ring',
    'variable',
  ];
  expect(files.sort()).toEqual(
    [
      ...['API.md', 'KERNEL.md', 'LICENSE', 'README.md', 'package.json', 'build/libbpf_ts.node'],
      ...modules.flatMap((name) => [`build/${name}.d.ts`, `build/${name}.js`]),
    ].sort(),
  );
});

test('it has no install script and no dependency', () => {
  const manifest = JSON.parse(readFileSync(join(folder, 'node_modules/libbpf-ts/package.json'), 'utf8'));
  expect([manifest.scripts, manifest.dependencies]).toEqual([undefined, undefined]);
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8'));
  expect(Object.keys(lock.packages)).toEqual(['', 'node_modules/libbpf-ts']);
});

test('the first example of the README counts system calls', async () => {
  const [, source, program] = /```c\n(.*?)```.*?```js\n(.*?)```/s.exec(README)!;
  expect(program!.trim().split('\n').length).toBeLessThan(14);
  writeFileSync(join(folder, 'syscalls.bpf.c'), source!);
  writeFileSync(join(folder, 'syscalls.mjs'), program!);
  const [, compile] = /compiled with `(clang [^`]*)`/.exec(README)!;
  execFileSync('sh', ['-ec', compile!], { cwd: folder });
  const child = spawn(process.execPath, ['syscalls.mjs'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  let isOver = false;
  const ended = once(child, 'close').then(() => {
    isOver = true;
  });
  const script = `import os\nfor _ in range(${CALLS}): os.getsid(0)`;
  let runs = 0;
  // The program needs a moment until it is attached, and then counts for a second.
  for (; !isOver; runs++) await run('python3', ['-c', script]);
  await ended;
  const [, times] = new RegExp(`^system call ${GETSID}: (\\d+) times$`, 'm').exec(output)!;
  expect(Number(times)).toBeGreaterThanOrEqual(CALLS);
  expect(Number(times)).toBeLessThanOrEqual(runs * CALLS);
});

test('without its libraries it names the missing ones', () => {
  const library = execFileSync('sh', ['-c', "ldconfig -p | sed -n 's/.*libelf.so.1 .*x86-64.* => //p'"], {
    encoding: 'utf8',
  });
  const hidden = `mount --bind /dev/null "$(readlink -f ${library.trim()})" && exec "$@"`;
  const command = [process.execPath, '--input-type=module', '-e', "(await import('libbpf-ts')).possibleCpus()"];
  const { status, stderr } = spawnSync('unshare', ['--mount', 'sh', '-ec', hidden, 'sh', ...command], {
    cwd: folder,
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([1, expect.stringMatching(/cannot load its addon.*libelf\.so\.1.*ERR_ADDON/s)]);
});

test.each([
  ['API.md', []],
  ['KERNEL.md', ['--name', 'libbpf-ts/kernel', '--entryPoints', 'kernel.ts', '--entryFileName', 'KERNEL.md']],
])('%s matches the sources; `make docs` writes it', (page, words) => {
  const out = join(folder, 'docs', page);
  mkdirSync(out, { recursive: true });
  const typedoc = join(PACKAGE, 'node_modules/typedoc/bin/typedoc');
  execFileSync(process.execPath, [typedoc, '--out', out, '--logLevel', 'Warn', ...words], { cwd: PACKAGE });
  const fresh = readFileSync(join(out, page), 'utf8').replace(/[^\S\n]+$/gm, '');
  expect(readFileSync(join(PACKAGE, page), 'utf8')).toBe(fresh);
});
