/**
 * Makes a release as `make release` does, of packages that are built already, in a process that a test can end.
 * usage: release_of_built.ts PROJECT OUTPUT DEB CI_ARCHIVE [hang]
 */
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { runInterruptibly } from '../../../../daemon/package/release/command.ts';
import { call } from '../../../../daemon/package/release/programs.ts';
import { makeRelease } from '../../../../daemon/package/release/release.ts';

const [project, output, deb, ciArchive, hang] = process.argv.slice(2) as [string, string, string, string, string?];

process.umask(0o022);
await runInterruptibly((signal) =>
  makeRelease({
    project,
    output,
    signingKey: process.env.SIGNING_KEY,
    signal,
    say: (line) => process.stdout.write(`${line}\n`),
    async buildPackages(sources, { version }) {
      if (hang) {
        process.stdout.write('builds\n');
        await call('sleep', ['600'], { signal });
      }
      const place = (name: string, built: string) => {
        const path = join(sources, 'build', name);
        symlinkSync(built, path);
        return path;
      };
      mkdirSync(join(sources, 'build'));
      return {
        deb: place(`kreplay_${version}_amd64.deb`, deb),
        ciArchive: place(`kreplay-ci_${version}_linux_amd64.tar.gz`, ciArchive),
      };
    },
  }),
);
