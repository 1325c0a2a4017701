/** Writes an apt repository: the package, its index, and the index's signature. */
import { createHash } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Tree } from '../tree.ts';
import { call } from './programs.ts';
import type { SigningKey } from './signing_key.ts';
import type { Source } from './source.ts';

const SUITE = 'stable';
const COMPONENT = 'main';
const ARCHITECTURE = 'amd64';

/** Returns the time of the index of the repository at `path`; undefined if it is not readable. */
export function readIndexTime_s(path: string): number | undefined {
  try {
    const [, date] = /^Date: (.+)$/m.exec(readFileSync(join(path, 'dists', SUITE, 'Release'), 'utf8')) ?? [];
    const time_ms = Date.parse(date ?? '');
    return Number.isNaN(time_ms) ? undefined : time_ms / 1000;
  } catch {
    // The replaced folder may contain anything, so an unreadable date is not an error.
    return undefined;
  }
}

/** Writes the repository. `place` is its folder in the tree, and `deb` is the path of the package in the tree. */
export async function writeAptRepository(
  tree: Tree,
  place: string,
  deb: string,
  { version, commit, epoch_s }: Source,
  key: SigningKey,
): Promise<void> {
  const pooled = join(tree.root, place, `pool/${COMPONENT}/k/kreplay/kreplay_${version}_${ARCHITECTURE}.deb`);
  mkdirSync(dirname(pooled), { recursive: true });
  linkSync(join(tree.root, deb), pooled);
  // The output must not depend on the user's language.
  const environment = { ...process.env, LC_ALL: 'C.UTF-8' };
  const scan = ['--multiversion', '--arch', ARCHITECTURE, 'pool'];
  const index = await call('dpkg-scanpackages', scan, { folder: join(tree.root, place), environment });
  const suite = `${place}/dists/${SUITE}`;
  const files = ['Packages', 'Packages.gz'].map((name) => `${COMPONENT}/binary-${ARCHITECTURE}/${name}`);
  tree.write(`${suite}/${files[0]}`, index);
  tree.write(`${suite}/${files[1]}`, gzipSync(index, { level: 9 }));
  const release = [
    'Origin: kreplay',
    'Label: kreplay',
    `Suite: ${SUITE}`,
    `Codename: ${SUITE}`,
    // If apt already has an index with a later date, it silently keeps that index and exits with 0.
    `Date: ${new Date(epoch_s * 1000).toUTCString().replace('GMT', 'UTC')}`,
    `Architectures: ${ARCHITECTURE}`,
    `Components: ${COMPONENT}`,
    `Description: kreplay ${version}, of commit ${commit}`,
    'SHA256:',
    ...files.map((file) => ` ${describeFile(join(tree.root, suite, file))} ${file}`),
    '',
  ].join('\n');
  tree.write(`${suite}/Release`, release);
  tree.write(`${suite}/Release.gpg`, await key.sign(Buffer.from(release)));
  tree.write(`${suite}/InRelease`, await key.signInline(release));
}

function describeFile(path: string): string {
  const content = readFileSync(path);
  return `${createHash('sha256').update(content).digest('hex')} ${content.length}`;
}
