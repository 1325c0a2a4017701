/** The package and the archive as their scripts build them, and a package that claims to be older. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { times } from '../../repeats.ts';

export const PROJECT = resolve(import.meta.dirname, '../../..');

export interface BuildOptions {
  environment?: NodeJS.ProcessEnv;
  /** A command that starts the script. */
  command?: readonly string[];
}

type Script = 'build_deb' | 'build_ci_archive';

/** Compression takes three quarters of a build's CPU time: only a run with more repetitions compresses as a release. */
const FAST = { build_deb: ['--uncompressed'], build_ci_archive: ['--level', '1'] } as const;
const isFast = times(1) === 1;

/** Resolves when the file is there. */
export async function build(
  script: Script,
  output: string,
  { environment = {}, command = [] }: BuildOptions = {},
): Promise<void> {
  const options = [...(isFast ? FAST[script] : []), '--output', output];
  const words = [process.execPath, join(PROJECT, `daemon/package/${script}.ts`), ...options];
  const [file, ...args] = [...command, ...words];
  const child = spawn(file!, args, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`the build of ${output} ended with ${code}`);
}

const FOLDER = join(PROJECT, 'build/test');

/** Names this run of the tests: all its suites have the same parent. */
function thisRun(): string {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  // The name of the program, in brackets, may have blanks; the start of the process is the 20th field after it.
  const startTicks = readFileSync(`/proc/${process.ppid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')[19];
  return [boot, process.ppid, startTicks].join(' ');
}

/** Returns the path of a file that is built once in a run. */
async function ofThisRun(script: Script, name: string): Promise<string> {
  const path = join(FOLDER, name);
  const builtBy = `${path}.run`;
  if (existsSync(builtBy) && readFileSync(builtBy, 'utf8') === thisRun()) return path;
  mkdirSync(FOLDER, { recursive: true });
  rmSync(builtBy, { force: true });
  const unfinished = `${path}.${process.pid}`;
  await build(script, unfinished);
  renameSync(unfinished, path);
  writeFileSync(builtBy, thisRun());
  return path;
}

export const packageOfThisRun = (): Promise<string> => ofThisRun('build_deb', 'kreplay.deb');

export const archiveOfThisRun = (): Promise<string> => ofThisRun('build_ci_archive', 'kreplay-ci.tar.gz');

/** Builds the file once more elsewhere, with other settings of the user's session, and whether it has the same bytes. */
export async function isTheSameAgain(script: Script, file: string, folder: string): Promise<boolean> {
  const again = join(folder, 'again');
  const elsewhere = join(folder, 'elsewhere');
  mkdirSync(elsewhere);
  await build(script, again, {
    environment: { TMPDIR: elsewhere, TZ: 'Asia/Kathmandu', LC_ALL: 'C' },
    command: ['sh', '-c', 'umask 077 && exec "$@"', 'sh'],
  });
  return readFileSync(again).equals(readFileSync(file));
}

/** Its Node alone has 100 MB, which a package whose programs are not started need not have. */
export const LARGEST = 'usr/lib/kreplay/node_modules';

/** Builds a package with the same files, but for those of some folders, and another version. */
export function repack(deb: string, version: string, output: string, without: readonly string[] = []): void {
  const folder = `${output}.files`;
  mkdirSync(folder);
  const extract =
    'deb=$1 folder=$2; shift 2; dpkg-deb --fsys-tarfile "$deb" | tar --extract --directory "$folder" "$@"';
  execFileSync('sh', ['-c', extract, 'sh', deb, folder, ...without.map((path) => `--exclude=./${path}`)]);
  execFileSync('dpkg-deb', ['--control', deb, join(folder, 'DEBIAN')]);
  const control = join(folder, 'DEBIAN/control');
  writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, `Version: ${version}`));
  execFileSync('dpkg-deb', ['--root-owner-group', '-Znone', '--build', folder, output], { stdio: 'ignore' });
  rmSync(folder, { recursive: true });
}
