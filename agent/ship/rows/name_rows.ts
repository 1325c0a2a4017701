/** Rows of the table `name`: the services and devices of a segment, for each hour in which they occur. */
import type { Column } from '../../../bpf/schema/columns.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { OWNERS } from '../../recording/format/owner_columns.ts';
import type { ShippedBlock } from './shipped_block.ts';
import type { TableRows } from './table_rows.ts';

export interface NameRows {
  add(shipped: ShippedBlock): void;
  /** Forgets which rows were added: another group begins. */
  clear(): void;
}

const HOUR_NS = 3_600_000_000_000n;

const KINDS: readonly { kind: string; columns: readonly Column[] }[] = [
  { kind: 'service', columns: OWNERS.map(({ service }) => service) },
  { kind: 'device', columns: COLUMNS.filter(({ field, source }) => field === 'device' && source === 'text') },
];

export function nameRows(rows: TableRows): NameRows {
  const added = new Set<string>();

  /** A service is listed in the hour of the segment's first event: a list of services has no times. */
  function add(hour: number, kind: string, text: string): void {
    const key = `${hour} ${kind} ${text}`;
    if (text === '' || added.has(key)) return;
    added.add(key);
    rows.add([hour, kind, text]);
  }

  return {
    add({ block, names }) {
      const timestamps = block.columns.get('timestamp_ns')! as BigUint64Array;
      const hour = Number((timestamps[0] ?? 0n) / HOUR_NS);
      for (const { kind, columns } of KINDS) {
        const places = new Set<number>();
        for (const { name, eventType } of columns) {
          const ids = block.columns.get(name)! as Uint32Array;
          const length = eventType === 0 ? block.rowCount : block.typeCounts[eventType]!;
          for (let i = 0; i < length; i++) places.add(names.placeOf(ids[i]!));
        }
        for (const place of places) add(hour, kind, names.entries[place]!);
      }
    },
    clear: () => added.clear(),
  };
}
