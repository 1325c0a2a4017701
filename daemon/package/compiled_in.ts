/** Debian libraries that are linked into kreplay's own binaries. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface CompiledIn {
  /** Name of the Debian package. */
  name: string;
  version: string;
  /** Licences of the library, from Debian's copyright file. */
  copyright: string;
}

/**
 * libbpf is in libbpf_ts.node, zstd in columns.node, xxHash in pages.so, glibc in the runner, libstdc++ in all addons.
 */
const PACKAGES = ['libbpf-dev', 'libzstd-dev', 'libxxhash-dev', 'libc6-dev', 'libstdc++-12-dev'];

export function readCompiledLibraries(): CompiledIn[] {
  return PACKAGES.map((name) => ({
    name,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query's.
    version: execFileSync('dpkg-query', ['--show', '--showformat=${Version}', name], { encoding: 'utf8' }),
    copyright: readFileSync(`/usr/share/doc/${name}/copyright`, 'utf8'),
  }));
}
