/**
 * Makes a release of a commit. Its folder becomes visible only when it is complete. Packages are built from the
 * release's own source archive, so they contain neither uncommitted files nor old build output.
 */
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createTree, listFiles, settle, type Tree } from '../tree.ts';
import { listAbandoned, nameOfThisProcess, removeAbandoned } from './abandoned.ts';
import { readIndexTime_s, writeAptRepository } from './apt_repository.ts';
import { call, requirePrograms } from './programs.ts';
import { checkSbom } from './sbom_schema.ts';
import { openSigningKey, type SigningKey } from './signing_key.ts';
import { buildSourceArchive, readSource, type Source } from './source.ts';

export interface BuiltPackages {
  deb: string;
  ciArchive: string;
}

export interface ReleaseOptions {
  /** Folder of the repository. */
  project: string;
  /** Folder of the release; an earlier release in it is replaced. */
  output: string;
  /** Name of a key in gpg's home folder; undefined to create a key for this release only. */
  signingKey: string | undefined;
  signal: AbortSignal;
  /** Prints a line for the user. */
  say(line: string): void;
  /** Builds the packages from the sources in a folder; resolves with the paths of the packages. */
  buildPackages(sources: string, source: Source): Promise<BuiltPackages>;
}

const APT = 'apt';
const KEY_FILE = 'kreplay-signing-key.asc';
const SUMS_FILE = 'SHA256SUMS';
/** Name of the folder to which the earlier release is moved while the new one replaces it. */
const REPLACED = 'replaced';

export async function makeRelease(options: ReleaseOptions): Promise<void> {
  const { project, output, signingKey, signal, say } = options;
  const prefix = `${basename(output)}.unfinished-`;
  restoreReplaced(output, prefix, say);
  await requirePrograms('git', 'gpg', 'gpgconf', 'dpkg-scanpackages');
  const source = await readSource(project);
  const key = await openSigningKey(signingKey, source.version);
  const unfinished = join(dirname(output), nameOfThisProcess(prefix));
  let replacedTime_s: number | undefined;
  try {
    removeAbandoned(dirname(output), prefix);
    mkdirSync(unfinished, { recursive: true });
    const tree = createTree(join(unfinished, 'release'));
    await fill(tree, unfinished, source, key, options);
    settle(tree, source.epoch_s);
    signal.throwIfAborted();
    replacedTime_s = readIndexTime_s(join(output, APT));
    replaceFolder(tree.root, output, join(unfinished, REPLACED));
  } finally {
    await sayFailure(say, () => key.close());
    await sayFailure(say, () => rmSync(unfinished, { recursive: true, force: true }));
  }
  describe(output, source, key).forEach(say);
  if (replacedTime_s !== undefined && replacedTime_s > source.epoch_s)
    explainOlder(output, source, replacedTime_s).forEach(say);
}

/**
 * Restores the earlier release if a process was killed between the two renames of `replaceFolder`. In that case, only
 * the process's own folder contains the earlier release.
 */
function restoreReplaced(output: string, prefix: string, say: ReleaseOptions['say']): void {
  if (isThere(output)) return;
  const [replaced] = listAbandoned(dirname(output), prefix)
    .map((folder) => join(folder, REPLACED))
    .filter(isThere);
  if (replaced === undefined) return;
  renameSync(replaced, output);
  say(`${output} is the earlier release again, which a killed make release had put aside`);
}

/**
 * Runs `remove` and only prints its error. An error about leftover files must not make a complete release fail, and
 * must not hide the error of a failed release.
 */
async function sayFailure(say: ReleaseOptions['say'], remove: () => unknown): Promise<void> {
  try {
    await remove();
  } catch (error) {
    // rmSync's message begins with this text if Node has no name for the error.
    const reason = (error as Error).message.replace(/^, Unknown error: /, '');
    say(`leftovers of this run stay, remove them by hand: ${reason}`);
  }
}

async function fill(
  tree: Tree,
  unfinished: string,
  source: Source,
  key: SigningKey,
  { buildPackages, say }: ReleaseOptions,
): Promise<void> {
  const { version, commit } = source;
  say(`kreplay ${version} of commit ${commit}: its source archive, and what is built from that`);
  const top = `kreplay-${version}`;
  const archive = `${top}.tar.gz`;
  tree.write(archive, await buildSourceArchive(source, top));
  await call('tar', ['-xzf', join(tree.root, archive), '-C', unfinished]);
  const { deb, ciArchive } = await buildPackages(join(unfinished, top), source);
  const [debName, ciName] = [basename(deb), basename(ciArchive)];
  tree.copy(deb, debName);
  tree.copy(ciArchive, ciName);
  tree.write(debName.replace(/\.deb$/, '.cdx.json'), await checkSbom(await readSbomOfDeb(deb)));
  tree.write(ciName.replace(/\.tar\.gz$/, '.cdx.json'), await checkSbom(await readSbomOfArchive(ciArchive)));
  await writeAptRepository(tree, APT, debName, source, key);
  const sums = computeSums(tree.root);
  tree.write(SUMS_FILE, sums);
  tree.write(`${SUMS_FILE}.asc`, await key.sign(Buffer.from(sums)));
  tree.write(KEY_FILE, key.publicPart);
}

async function readSbomOfDeb(deb: string): Promise<string> {
  const script = 'dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout ./usr/share/doc/kreplay/sbom.cdx.json';
  return (await call('bash', ['-o', 'pipefail', '-c', script, 'bash', deb])).toString();
}

async function readSbomOfArchive(archive: string): Promise<string> {
  return (await call('tar', ['-xzOf', archive, 'kreplay-ci/sbom.cdx.json'])).toString();
}

/** Returns the checksums of the top-level files as sha256sum(1) prints them. The apt repository has its own. */
function computeSums(folder: string): string {
  const files = listFiles(folder).filter((path) => dirname(path) === '.');
  const sum = (file: string) =>
    createHash('sha256')
      .update(readFileSync(join(folder, file)))
      .digest('hex');
  return files.map((file) => `${sum(file)}  ${file}\n`).join('');
}

/**
 * Replaces the folder `output` with two renames, because one rename cannot replace a folder with files. Between the
 * renames, there is no `output`.
 */
function replaceFolder(folder: string, output: string, replaced: string): void {
  const isReplacing = isThere(output);
  if (isReplacing) renameSync(output, replaced);
  try {
    renameSync(folder, output);
  } catch (error) {
    if (isReplacing) renameSync(replaced, output);
    throw error;
  }
}

/** Returns whether something exists at `path`; this includes a dangling symbolic link. */
const isThere = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

/**
 * Explains that hosts ignore this release if they already know the replaced one. apt compares only the dates of
 * indexes, and the replaced index is of a later commit.
 */
function explainOlder(output: string, { epoch_s }: Source, replacedTime_s: number): string[] {
  const [time, later] = [epoch_s, replacedTime_s].map((one) => new Date(one * 1000).toUTCString());
  return [
    `The release that was in ${output} is of a later commit: its index for apt is of ${later}, and the new one of ${time}.`,
    'Hosts that know the later index keep it, and apt update ends with 0. git commit --amend --no-edit gives a commit the',
    'present time: make the release of that commit.',
  ];
}

function describe(output: string, source: Source, key: SigningKey): string[] {
  const files = listFiles(output).filter((path) => dirname(path) === '.');
  return [
    `${output}:`,
    ...files.map((file) => `  ${file}  ${formatKB(statSync(join(output, file)).size)}`),
    `  ${APT}/  for apt: agent/docs/install.md says how`,
    `signed with ${key.fingerprint}`,
    ...(key.isTemporary
      ? [
          'This key was made for this release and is destroyed. It proves nothing beyond this folder: whoever can change the',
          'folder can sign it again. SIGNING_KEY=NAME signs with a key of gpg, which lasts.',
        ]
      : []),
    ...describeTag(source),
  ];
}

function describeTag({ version, commit, date, isTagged }: Source): string[] {
  if (date === undefined)
    return [
      `CHANGELOG.md calls ${version} unreleased, so this is a trial: for a release, put the date into its heading and commit that.`,
    ];
  return isTagged ? [] : [`kreplay ${version} of ${date}: its tag is made with git tag v${version} ${commit}`];
}

const formatKB = (size_bytes: number): string => `${Math.ceil(size_bytes / 1000).toLocaleString('en')} kB`;
