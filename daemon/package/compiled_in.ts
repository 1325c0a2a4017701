/** Debian libraries that are statically linked into kreplay's binaries. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface CompiledIn {
  /** Name of the Debian package. */
  name: string;
  version: string;
  /** Text of the library's copyright file in Debian. */
  copyright: string;
}

/**
 * Packages of the libraries: libbpf is linked into libbpf_ts.node, zstd into columns.node, xxHash into pages.so, glibc
 * into the runner, and libstdc++ into all addons.
 */
const PACKAGES = ['libbpf-dev', 'libzstd-dev', 'libxxhash-dev', 'libc6-dev', 'libstdc++-12-dev'];

export function readCompiledLibraries(): CompiledIn[] {
  return PACKAGES.map((name) => ({
    name,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query expands this expression itself.
    version: execFileSync('dpkg-query', ['--show', '--showformat=${Version}', name], { encoding: 'utf8' }),
    copyright: readFileSync(`/usr/share/doc/${name}/copyright`, 'utf8'),
  }));
}
