/** Lists the package's components in the CycloneDX format, for tools that search for known vulnerabilities. */
import { createHash } from 'node:crypto';
import { Enums, Models, Serialize, SPDX, Spec } from '@cyclonedx/cyclonedx-library';
import type { CompiledIn } from './compiled_in.ts';
import type { ShippedPackage } from './shipped_packages.ts';

export interface Described {
  name: string;
  version: string;
  license: string;
}

/** Builds the list. The same package always yields the identical list. */
export function buildSbom(
  own: Described,
  shipped: readonly ShippedPackage[],
  libraries: readonly CompiledIn[],
  epoch_s: number,
): string {
  const root = buildComponent(Enums.ComponentType.Application, own, `pkg:generic/${own.name}@${own.version}`);
  const byPlace = new Map(
    shipped.map((one) => [one.to, buildComponent(Enums.ComponentType.Library, one, buildNpmUrl(one))]),
  );
  const needed = new Set(shipped.flatMap(({ needs }) => needs));
  for (const { to, needs } of shipped) {
    if (!needed.has(to)) root.dependencies.add(byPlace.get(to)!.bomRef);
    for (const place of needs) {
      const component = byPlace.get(place);
      if (component) byPlace.get(to)!.dependencies.add(component.bomRef);
    }
  }
  const compiled = libraries.map(({ name, version }) =>
    buildComponent(Enums.ComponentType.Library, { name, version, license: '' }, buildDebianUrl(name, version)),
  );
  for (const { bomRef } of compiled) root.dependencies.add(bomRef);
  const bom = new Models.Bom({
    components: new Models.ComponentRepository([...byPlace.values(), ...compiled]),
    metadata: new Models.Metadata({ component: root, timestamp: new Date(epoch_s * 1000) }),
  });
  const serializer = new Serialize.JsonSerializer(new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6));
  const serializeBom = () => serializer.serialize(bom, { sortLists: true, space: 2 });
  bom.serialNumber = `urn:uuid:${computeUuid(serializeBom())}`;
  return `${serializeBom()}\n`;
}

function buildComponent(type: Enums.ComponentType, { name, version, license }: Described, purl: string) {
  const licenses = new Models.LicenseRepository(license === '' ? [] : [toLicense(license)]);
  return new Models.Component(type, name, { bomRef: `${name}@${version}`, version, licenses, purl });
}

function toLicense(license: string): Models.License {
  return SPDX.isSupportedSpdxId(license) ? new Models.SpdxLicense(license) : new Models.NamedLicense(license);
}

function buildNpmUrl({ name, version }: ShippedPackage): string {
  return `pkg:npm/${name.replace('@', '%40')}@${version}`;
}

function buildDebianUrl(name: string, version: string): string {
  return `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}`;
}

/** Returns a UUID of version 8 (RFC 9562), whose bits the application may choose. */
function computeUuid(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
