/**
 * `make deb`: builds one Debian package with everything that a host needs, including Node. Building the same commit
 * again creates a byte-identical package, at any time and on any Debian 12 host.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { version as projectVersion } from '../cli/program.ts';
import { readCompiledLibraries } from './compiled_in.ts';
import { buildDocuments } from './documents.ts';
import { ownLicence, readLicenseTexts } from './licences.ts';
import { DOC, listPicturePaths, readShippedPages } from './pages.ts';
import { listModules, ownPackage, PROJECT, readSourceEpoch_s, stageProgram } from './program.ts';
import { buildSbom } from './sbom.ts';
import { readShippedPackages } from './shipped_packages.ts';
import { computeMd5Sums, computeSizeKiB, createTree, listFiles, settle, type Tree } from './tree.ts';

const DEBIAN = join(import.meta.dirname, 'debian');
const HOME = 'usr/lib/kreplay';
const UNITS = [
  ...['kreplay-agent.service', 'kreplay-daemon.service', 'kreplay-ship.service', 'kreplay-watch.service'],
  ...['kreplay-fleet-retain.service', 'kreplay-fleet-retain.timer'],
];
const CONFIG = 'etc/kreplay/kreplay.toml';

/**
 * Options of dpkg-deb. The number of threads is fixed, because xz produces different bytes with several threads. Level
 * 3 is a compromise between time and size.
 */
const COMPRESSION = {
  xz: ['-Zxz', '-z3', '--threads-max=1'],
  none: ['-Znone'],
} as const;

/** Dependencies of the package. Debian 13 renamed libelf1, but the new package provides the old name. */
const DEPENDS = [
  ...['libc6 (>= 2.36)', 'libelf1', 'libgcc-s1 (>= 3.4)', 'libstdc++6 (>= 12)', 'zlib1g (>= 1:1.2.0)'],
  ...['init-system-helpers (>= 1.52)', 'systemd | systemd-standalone-sysusers | systemd-sysusers'],
  'systemd | systemd-standalone-tmpfiles | systemd-tmpfiles',
];

export interface DebOptions {
  version: string;
  /** Modification time of all files in the package. */
  epoch_s: number;
  /** Folder to stage the package in. */
  folder: string;
  output: string;
  /** Compression method of the package; xz takes three quarters of the build time. */
  compression: keyof typeof COMPRESSION;
}

export async function buildDeb({ version, epoch_s, folder, output, compression }: DebOptions): Promise<void> {
  const tree = createTree(join(folder, 'root'));
  stageProgram(tree, { home: HOME, built: listBuiltFiles(), packages: readShippedPackages(PROJECT) });
  tree.link('../lib/kreplay/build/kreplay', 'usr/bin/kreplay');
  await describe(tree, version, epoch_s);
  writeService(tree);
  writeControl(tree, version);
  settle(tree, epoch_s);
  mkdirSync(dirname(output), { recursive: true });
  execFileSync('dpkg-deb', ['--root-owner-group', ...COMPRESSION[compression], '--build', tree.root, output], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch_s) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

function listBuiltFiles(): string[] {
  const imported = Object.values(ownPackage().imports).flatMap((place) => listImportedFiles(place));
  return ['build/kreplay', ...listModules().map((path) => `build/js/${path}`), ...imported];
}

/**
 * Lists the built files of one entry in package.json's `imports`. If the entry contains `*`, these are all files in the
 * folder with the suffix after the `*`.
 */
function listImportedFiles(place: string): string[] {
  const path = place.slice('./'.length);
  if (!path.startsWith('build/')) return [];
  const [folder, ending] = path.split('*');
  if (ending === undefined) return [path];
  return listFiles(join(PROJECT, folder!)).flatMap((file) => (file.endsWith(ending) ? [`${folder}${file}`] : []));
}

async function describe(tree: Tree, version: string, epoch_s: number): Promise<void> {
  const date = new Date(epoch_s * 1000).toISOString().slice(0, 10);
  for (const [path, text] of await buildDocuments({ version, date })) {
    if (path.includes('/man/')) tree.write(`${path}.gz`, gzipSync(text, { level: 9 }));
    else tree.write(path, text);
  }
  const { name, license } = ownPackage();
  const shipped = readShippedPackages(PROJECT);
  const libraries = readCompiledLibraries();
  tree.write(`${DOC}/copyright`, ownLicence(shipped, libraries, date.slice(0, 4)));
  tree.write(`${DOC}/third-party-licences.gz`, gzipSync(readLicenseTexts(PROJECT, shipped, libraries), { level: 9 }));
  tree.write(`${DOC}/sbom.cdx.json`, buildSbom({ name, version, license }, shipped, libraries, epoch_s));
  tree.write(`${DOC}/changelog.gz`, gzipSync(formatChangelog(version, epoch_s), { level: 9 }));
  for (const [path, text] of readShippedPages(PROJECT)) tree.write(`${DOC}/${path}`, text);
  for (const path of listPicturePaths(PROJECT)) tree.copy(join(PROJECT, path), `${DOC}/${path}`);
  for (const name of ['alerts.yml', 'grafana_dashboard.json'])
    tree.copy(join(PROJECT, 'daemon/metrics', name), `${DOC}/examples/${name}`);
  tree.copy(join(PROJECT, 'daemon/package/github_action/action.yml'), `${DOC}/examples/action.yml`);
}

function formatChangelog(version: string, epoch_s: number): string {
  const date = new Date(epoch_s * 1000).toUTCString().replace('GMT', '+0000');
  return `kreplay (${version}) stable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n -- kreplay maintainers <maintainers@kreplay.invalid>  ${date}\n`;
}

function writeService(tree: Tree): void {
  // The units go to /usr/lib. In /lib, which may be a symbolic link, dpkg would leave a folder behind and print a
  // warning.
  for (const unit of UNITS) tree.copy(join(DEBIAN, unit), `usr/lib/systemd/system/${unit}`);
  tree.copy(join(DEBIAN, 'sysusers.conf'), 'usr/lib/sysusers.d/kreplay.conf');
  tree.copy(join(DEBIAN, 'tmpfiles.conf'), 'usr/lib/tmpfiles.d/kreplay.conf');
  tree.copy(join(DEBIAN, 'kreplay.toml'), CONFIG);
  tree.addFolder('etc/kreplay/kreplay.d');
  tree.copy(join(DEBIAN, 'lintian-overrides'), 'usr/share/lintian/overrides/kreplay');
}

function writeControl(tree: Tree, version: string): void {
  const size = computeSizeKiB(tree);
  const sums = computeMd5Sums(tree);
  tree.write(
    'DEBIAN/control',
    [
      'Package: kreplay',
      `Version: ${version}`,
      'Architecture: amd64',
      'Maintainer: kreplay maintainers <maintainers@kreplay.invalid>',
      `Installed-Size: ${size}`,
      `Depends: ${DEPENDS.join(', ')}`,
      'Section: admin',
      'Priority: optional',
      'Description: kernel flight recorder with replay',
      ' Records what the programs of a host ask of the kernel (writes, syncs and',
      ' block requests) with the service, transaction and trace that caused it,',
      ' answers questions about it over HTTP, and replays an incident event by',
      ' event.',
      ' .',
      ' Comes with its own Node.js. Needs a kernel with BTF (5.15 or later).',
      '',
    ].join('\n'),
  );
  tree.write('DEBIAN/conffiles', `/${CONFIG}\n`);
  tree.write('DEBIAN/md5sums', sums);
  for (const name of ['postinst', 'prerm', 'postrm']) tree.copy(join(DEBIAN, name), `DEBIAN/${name}`, 0o755);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { version: { type: 'string' }, output: { type: 'string' }, uncompressed: { type: 'boolean' } },
  });
  const version = values.version ?? projectVersion();
  const output = values.output ?? join(PROJECT, `build/kreplay_${version}_amd64.deb`);
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-deb-'));
  try {
    const compression = values.uncompressed ? 'none' : 'xz';
    await buildDeb({ version, epoch_s: readSourceEpoch_s(), folder, output, compression });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  process.stdout.write(`${output}\n`);
}
