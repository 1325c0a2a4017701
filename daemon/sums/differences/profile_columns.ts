/**
 * Properties of event profiles, stored as one array per property and indexed by profile number, because most events
 * need only one property of their profile.
 */
import type { Profile } from './profiles.ts';
import { KINDS } from './time_parts.ts';

export interface ProfileColumns {
  /** Kind of the intervals of a profile's own events (KINDS), or NO_KIND. */
  kinds: Uint8Array;
  nodes: Uint32Array;
  nodeCount: number;
  /** Number of the device's value; -1 if the profile has no device. */
  devices: Int32Array;
  /** The values of profile p are `values[firstValues[p]]` to before `values[firstValues[p + 1]]`. */
  firstValues: Uint32Array;
  values: Uint32Array;
}

const NO_KIND = 255;
const KIND_OF: ReadonlyMap<string, number> = new Map([
  ['sys_write', KINDS.write],
  ['sys_sync', KINDS.sync],
  ['block_io', KINDS.ownQueue],
]);

export function buildProfileColumns(profiles: readonly Profile[]): ProfileColumns {
  const nodeNumbers = new Map<string, number>();
  const firstValues = new Uint32Array(profiles.length + 1);
  const values = new Uint32Array(profiles.reduce((sum, one) => sum + one.values.length, 0));
  const columns = {
    kinds: new Uint8Array(profiles.length),
    nodes: new Uint32Array(profiles.length),
    devices: new Int32Array(profiles.length),
  };
  for (const [number, profile] of profiles.entries()) {
    const node = nodeNumbers.get(profile.node) ?? nodeNumbers.size;
    nodeNumbers.set(profile.node, node);
    columns.kinds[number] = KIND_OF.get(profile.eventType) ?? NO_KIND;
    columns.nodes[number] = node;
    columns.devices[number] = profile.device;
    values.set(profile.values, firstValues[number]!);
    firstValues[number + 1] = firstValues[number]! + profile.values.length;
  }
  return { ...columns, nodeCount: nodeNumbers.size, firstValues, values };
}
