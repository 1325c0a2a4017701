/** What is in the package, for who looks for components with known holes: CycloneDX, made by npm from the lock file. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import type { CompiledIn } from './compiled_in.ts';
import type { ShippedPackage } from './shipped_packages.ts';

interface Component {
  'bom-ref': string;
  name: string;
}

interface Bom {
  serialNumber: string;
  metadata: { timestamp: string; tools?: unknown; component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

/** The same for the same tree: npm's time, version and serial number are replaced. */
export function sbom(
  project: string,
  shipped: readonly ShippedPackage[],
  libraries: readonly CompiledIn[],
  epoch_s: number,
): string {
  const made = execFileSync('npm', ['sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only'], {
    cwd: project,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const bom = JSON.parse(made) as Bom;
  const refs = new Set(shipped.map(({ name, version }) => `${name}@${version}`));
  bom.components = [
    ...bom.components.filter((component) => refs.has(component['bom-ref'])),
    ...libraries.map(componentOf),
  ];
  const root = bom.metadata.component['bom-ref'];
  bom.dependencies = bom.dependencies
    .filter(({ ref }) => ref === root || refs.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) }));
  bom.metadata.timestamp = new Date(epoch_s * 1000).toISOString();
  // npm names them by their folders.
  bom.metadata.component.name = 'kreplay';
  for (const component of bom.components) if (component.name === 'native') component.name = 'libbpf-ts';
  delete bom.metadata.tools;
  bom.serialNumber = '';
  bom.serialNumber = `urn:uuid:${uuidOf(JSON.stringify(bom))}`;
  return `${JSON.stringify(bom, null, 2)}\n`;
}

function componentOf({ name, version }: CompiledIn) {
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}`;
  return { 'bom-ref': `${name}@${version}`, type: 'library', name, version, scope: 'required', purl };
}

/** RFC 9562, version 8: the bits are ours to choose. */
function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
