/** Describes differences in words. */

import { isPatternOfFolder } from '../../base/file_pattern.ts';
import type { ComparedField, DifferentValue, MapKind } from '../../contract/received.ts';
import type { Filtered } from '../link/link.ts';

export type NameFormatter = (name: string) => string;

const FIELD_NAMES: Readonly<Record<ComparedField, string>> = {
  service: 'service',
  node: 'node',
  event_type: 'event type',
  operation: 'operation',
  syscall: 'system call',
  device: 'device',
  comm: 'command',
  file: 'file',
  error: 'error',
  neighbour: 'neighbour',
};

export const getFieldName = (field: ComparedField): string => FIELD_NAMES[field];

type Named = Omit<DifferentValue, 'selected' | 'others'>;

/** Formats a field's value: `file /srv/wal/1`, `files in /srv/wal/`. */
export function formatFieldValue(named: Named, shown: NameFormatter): string {
  const { field, value } = named;
  if (field === 'neighbour') return `neighbour ${shown(value)} on ${formatDevice(named, shown)}`;
  if (field === 'file' && isPatternOfFolder(value)) return `files in ${shown(value)}`;
  return `${FIELD_NAMES[field]} ${shown(value)}`;
}

function formatDevice({ device }: Named, shown: NameFormatter): string {
  return `device ${shown(device!)}`;
}

const VERBS: Readonly<Record<MapKind, Readonly<Record<Filtered, string>>>> = {
  transactions: {
    service: 'involved',
    node: 'were on',
    event_type: 'had events of',
    operation: 'had requests of',
    syscall: 'called',
    device: 'used',
    comm: 'ran',
    file: 'touched',
    error: 'failed with',
  },
  events: {
    service: 'were of',
    node: 'were on',
    event_type: 'were of',
    operation: 'were of',
    syscall: 'were of',
    device: 'were on',
    comm: 'were of',
    file: 'were on',
    error: 'failed with',
  },
};

/** Maximum number of a field's values that are named; further values are only counted. */
const NAMED_MAX = 2;
const BY_ITSELF: ReadonlySet<ComparedField> = new Set(['syscall', 'error', 'neighbour']);

/**
 * Formats a row as a clause about the transactions or events that have all its values: `used device nvme1n1 on node
 * n2`.
 */
export function formatRowClause(values: readonly DifferentValue[], of: MapKind, shown: NameFormatter): string {
  const byField = Map.groupBy(values, ({ field }) => field);
  const nodes = byField.get('node');
  const clauses = [...byField].flatMap(([field, some]) => {
    if (field === 'neighbour') return formatSharedDevices(some, shown);
    return field === 'node' ? [] : `${VERBS[of][field]} ${formatNames(field, some, shown)}`;
  });
  if (!nodes) return joinWithAnd(clauses);
  const place = `on ${formatNames('node', nodes, shown)}`;
  return clauses.length === 0 ? `were ${place}` : `${joinWithAnd(clauses)} ${place}`;
}

/** Formats shared devices: `shared device vda with backup and cron`. */
function formatSharedDevices(values: readonly DifferentValue[], shown: NameFormatter): string[] {
  const byDevice = Map.groupBy(values, (value) => formatDevice(value, shown));
  return [...byDevice].map(([device, some]) => `shared ${device} with ${formatNames('neighbour', some, shown)}`);
}

function formatNames(field: ComparedField, values: readonly DifferentValue[], shown: NameFormatter): string {
  const name = (one: DifferentValue) => (BY_ITSELF.has(field) ? shown(one.value) : formatFieldValue(one, shown));
  const named = values.slice(0, NAMED_MAX).map(name);
  const more = values.length - named.length;
  return joinWithAnd(more > 0 ? [...named, `${more} more`] : named);
}

/** Joins texts: `a`, `a and b`, `a, b and c`. */
export function joinWithAnd(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;
}
