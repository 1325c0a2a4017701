/** The package and the archive as their scripts build them, and a package that claims to be older. */
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

type Script = 'build_deb' | 'build_ci_archive';

/** Resolves when the file is there. */
export async function build(
  script: Script,
  output: string,
  { environment = {}, command = [] }: BuildOptions = {},
): Promise<void> {
  const words = [process.execPath, join(PROJECT, `agent/package/${script}.ts`), '--output', output];
  const [file, ...args] = [...command, ...words];
  const child = spawn(file!, args, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`the build of ${output} ended with ${code}`);
}

const FOLDER = join(PROJECT, 'build/test');

/** Names this run of the tests: suites that run one after another share a process. */
function thisRun(): string {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  // The name of the program, in brackets, may have blanks; the start of the process is the 20th field after it.
  const startTicks = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)!.split(' ')[19];
  return [boot, process.pid, startTicks].join(' ');
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

/** Its build takes forty seconds of CPU time. */
export const packageOfThisRun = (): Promise<string> => ofThisRun('build_deb', 'kreplay.deb');

/** Its build takes ten seconds of CPU time. */
export const archiveOfThisRun = (): Promise<string> => ofThisRun('build_ci_archive', 'kreplay-ci.tar.gz');

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
