/** Generates `/usr/share/doc/kreplay/copyright`: the licences of kreplay and of everything shipped with it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CompiledIn } from './compiled_in.ts';
import type { ShippedPackage } from './shipped_packages.ts';

const RULE = '-'.repeat(78);

const OWN = `Copyright YEAR the contributors of kreplay

kreplay is licensed under the Apache License, Version 2.0; the BPF programs in
/usr/lib/kreplay/build/bpf under either the BSD 2-Clause licence or the GPL,
version 2. On Debian systems the texts of the first and the last are in
/usr/share/common-licenses/Apache-2.0 and /usr/share/common-licenses/GPL-2.

It comes with what is named below; third-party-licences.gz beside this file has
the notices and licences in full.

`;

export function ownLicence(shipped: readonly ShippedPackage[], libraries: readonly CompiledIn[], year: string): string {
  const packages = selectThirdParties(shipped).map(
    ({ name, version, license, to }) => `${name} ${version} (${license}): ${to}\n`,
  );
  const linked = libraries.map(({ name, version }) => `${name} ${version} of Debian: linked into the binaries\n`);
  return [OWN.replace('YEAR', year), ...packages, ...linked].join('');
}

export function readLicenseTexts(
  project: string,
  shipped: readonly ShippedPackage[],
  libraries: readonly CompiledIn[],
): string {
  const packages = selectThirdParties(shipped).map(
    (one) => `${RULE}\n${one.name} ${one.version}: ${one.license}\n\n${readLicenseText(project, one)}`,
  );
  const linked = libraries.map(({ name, version, copyright }) => `${RULE}\n${name} ${version}\n\n${copyright}`);
  return [...packages, ...linked].map((text) => `${text.trimEnd()}\n`).join('\n');
}

function selectThirdParties(shipped: readonly ShippedPackage[]): ShippedPackage[] {
  return shipped.filter(({ name }) => name !== 'libbpf-ts');
}

/** Returns the licence files of a package or, if it has none, its author and the name of its licence. */
function readLicenseText(project: string, { from }: ShippedPackage): string {
  const folder = join(project, from);
  const files = readdirSync(folder).filter((name) => /^(licen[cs]e|notice|copying)/i.test(name));
  if (files.length > 0)
    return files
      .sort()
      .map((name) => readFileSync(join(folder, name), 'utf8'))
      .join('\n');
  const { author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return `Copyright: ${typeof author === 'object' ? author.name : (author ?? 'its contributors')}`;
}
