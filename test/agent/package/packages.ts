/** The package as its script builds it, and one that claims to be older. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const PROJECT = resolve(import.meta.dirname, '../../..');

export interface BuildOptions {
  environment?: NodeJS.ProcessEnv;
  /** A command that starts the script. */
  command?: readonly string[];
}

/** Resolves when the package is there. */
export async function buildPackage(
  output: string,
  { environment = {}, command = [] }: BuildOptions = {},
): Promise<void> {
  const script = [process.execPath, join(PROJECT, 'agent/package/build_deb.ts'), '--output', output];
  const [file, ...args] = [...command, ...script];
  const build = spawn(file!, args, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(build, 'exit');
  if (code !== 0) throw new Error(`the build of ${output} ended with ${code}`);
}

const OF_THIS_RUN = join(PROJECT, 'build/test/kreplay.deb');

/** Names this run of the tests: suites that run one after another share a process. */
function thisRun(): string {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  // The name of the program, in brackets, may have blanks; the start of the process is the 20th field after it.
  const startTicks = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)!.split(' ')[19];
  return [boot, process.pid, startTicks].join(' ');
}

/** Returns the path of the package, which is built once in a run: that takes forty seconds of CPU time. */
export async function packageOfThisRun(): Promise<string> {
  const builtBy = `${OF_THIS_RUN}.run`;
  if (existsSync(builtBy) && readFileSync(builtBy, 'utf8') === thisRun()) return OF_THIS_RUN;
  mkdirSync(join(PROJECT, 'build/test'), { recursive: true });
  rmSync(builtBy, { force: true });
  const unfinished = `${OF_THIS_RUN}.${process.pid}`;
  await buildPackage(unfinished);
  renameSync(unfinished, OF_THIS_RUN);
  writeFileSync(builtBy, thisRun());
  return OF_THIS_RUN;
}

/** Extracts its files and its control files to a new folder. */
export function unpack(deb: string, folder: string): void {
  execFileSync('dpkg-deb', ['--raw-extract', deb, folder]);
}

/** Builds a package with the same files, and another version. */
export function repack(deb: string, version: string, output: string): void {
  const folder = `${output}.files`;
  unpack(deb, folder);
  const control = join(folder, 'DEBIAN/control');
  writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, `Version: ${version}`));
  execFileSync('dpkg-deb', ['--root-owner-group', '-Znone', '--build', folder, output], { stdio: 'ignore' });
  rmSync(folder, { recursive: true });
}
