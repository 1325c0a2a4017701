/** The package as its script builds it, and one that claims to be older. */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const PROJECT = resolve(import.meta.dirname, '../..');

export interface BuildOptions {
  environment?: NodeJS.ProcessEnv;
  /** A command that starts the script. */
  command?: readonly string[];
}

export function buildPackage(output: string, { environment = {}, command = [] }: BuildOptions = {}): void {
  const script = [process.execPath, join(PROJECT, 'agent/package/build_deb.ts'), '--output', output];
  const [file, ...args] = [...command, ...script];
  execFileSync(file!, args, { env: { ...process.env, ...environment }, stdio: ['ignore', 'ignore', 'inherit'] });
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
