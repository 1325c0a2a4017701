/** `make release`: leaves a release of the last commit in build/release. From one commit only signatures differ. */
import { join } from 'node:path';
import { PROJECT } from '../program.ts';
import { runInterruptibly } from './command.ts';
import { call } from './programs.ts';
import { type BuiltPackages, makeRelease } from './release.ts';
import type { Source } from './source.ts';

/** Variables by which one make tells another about itself: the make of the sources is not a part of this one. */
const OF_MAKE = ['MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'MAKEOVERRIDES'];

async function buildPackages(
  sources: string,
  { version, epoch_s }: Source,
  signal: AbortSignal,
): Promise<BuiltPackages> {
  // npm uses its cached packages again, because the lock file has their checksums.
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

// Other users read a release, whatever mask the user of this one has.
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
