/**
 * `make release`: makes a release of the last commit in build/release. Two releases of the same commit differ only in
 * their signatures.
 */
import { join } from 'node:path';
import { PROJECT } from '../program.ts';
import { runInterruptibly } from './command.ts';
import { call } from './programs.ts';
import { type BuiltPackages, makeRelease } from './release.ts';
import type { Source } from './source.ts';

/** Variables that a running make sets for a sub-make. The make of the packages is independent of this one. */
const OF_MAKE = ['MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'MAKEOVERRIDES'];

async function buildPackages(
  sources: string,
  { version, epoch_s }: Source,
  signal: AbortSignal,
): Promise<BuiltPackages> {
  // npm may use its cache, because the lock file has the checksums of all packages.
  const own = { SOURCE_DATE_EPOCH: String(epoch_s), npm_config_prefer_offline: 'true' };
  const environment: NodeJS.ProcessEnv = { ...process.env, ...own };
  for (const name of OF_MAKE) delete environment[name];
  await call('make', ['--no-print-directory', 'deb', 'ci-archive'], {
    folder: sources,
    environment,
    isShown: true,
    signal,
  });
  return {
    deb: join(sources, `build/kreplay_${version}_amd64.deb`),
    ciArchive: join(sources, `build/kreplay-ci_${version}_linux_amd64.tar.gz`),
  };
}

// All users must be able to read a release, even if this user's umask is stricter.
process.umask(0o022);
await runInterruptibly((signal) =>
  makeRelease({
    project: PROJECT,
    output: join(PROJECT, 'build/release'),
    signingKey: process.env.SIGNING_KEY,
    signal,
    say: (line) => process.stdout.write(`${line}\n`),
    buildPackages: (sources, source) => buildPackages(sources, source, signal),
  }),
);
