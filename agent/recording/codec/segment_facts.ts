/** Summarizes the events of a segment for its row in the segment table, so that a query can skip the segment. */
import type { Block } from '../../../bpf/schema/block.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { OWNERS, type OwnerColumns } from '../format/owner_columns.ts';
import { toStored } from '../format/schema.ts';
import { findExtremes } from '../words64.ts';
import { buildMemberFacts, type ColumnFacts, findDistinctValues, findExtremesByType } from './column_facts.ts';
import type { BlockRange } from './encode_segment.ts';

/**
 * The highest bit of a type mask: bit 63 is the sign of an SQLite integer. Event types with larger ids share this bit.
 */
const TYPE_ID_MAX = 62;

export interface SegmentFacts {
  minTimestampNs: bigint;
  maxTimestampNs: bigint;
  maxDurationNs: bigint;
  typeMask: bigint;
  /** Name ids of the services in the rows: of owners, of origins and of queuers. */
  services: Uint32Array;
}

export function typeMask(typeIds: readonly number[]): bigint {
  return typeIds.reduce((mask, id) => mask | (1n << BigInt(Math.min(id, TYPE_ID_MAX))), 0n);
}

export function computeSegmentFacts(block: Block, range: BlockRange): SegmentFacts {
  const time = findExtremes(block.columns.get('timestamp_ns')! as BigUint64Array, range.from, range.to);
  const duration = findExtremes(block.columns.get('duration_ns')! as BigUint64Array, range.from, range.to);
  const types = EVENTS.map((event) => event.id).filter((id) => range.typeTo[id]! > range.typeFrom[id]!);
  return {
    minTimestampNs: toStored(time.min),
    maxTimestampNs: toStored(time.max),
    maxDurationNs: toStored(duration.max),
    typeMask: typeMask(types),
    services: Uint32Array.from(collectDistinctIds(block, range, 'service')),
  };
}

/** Common columns whose distinct values a segment's facts list. */
export const WITH_MEMBERS = ['pid', 'comm'];
/** Common columns whose smallest and largest value for each event type a segment's facts list. */
export const WITH_EXTREMES = ['duration_ns', 'result'];

/** Returns facts about the columns of the rows, by column id. */
export function computeColumnFacts(
  block: Block,
  { from, to }: BlockRange,
  columnIds: ReadonlyMap<string, number>,
): Map<number, ColumnFacts> {
  const facts = new Map<number, ColumnFacts>();
  const types = block.columns.get('event_type')! as Uint8Array;
  for (const name of WITH_EXTREMES) {
    const values = block.columns.get(name)! as BigUint64Array | BigInt64Array;
    facts.set(columnIds.get(name)!, { extremes: findExtremesByType(types, values, from, to) });
  }
  for (const name of WITH_MEMBERS) {
    const values = block.columns.get(name)! as Uint32Array;
    facts.set(columnIds.get(name)!, buildMemberFacts(findDistinctValues(values, from, to)));
  }
  return facts;
}

/**
 * Returns the distinct ids in all owner columns of the rows, sorted and without 0. `kind` selects contexts or services.
 */
export function collectDistinctIds(
  block: Block,
  range: BlockRange,
  kind: keyof Omit<OwnerColumns, 'eventType'>,
): number[] {
  const ids = new Set<number>();
  for (const owner of OWNERS) {
    const values = block.columns.get(owner[kind].name)! as Uint32Array;
    const from = owner.eventType === 0 ? range.from : range.typeFrom[owner.eventType]!;
    const to = owner.eventType === 0 ? range.to : range.typeTo[owner.eventType]!;
    let last = 0;
    for (let row = from; row < to; row++) {
      const id = values[row]!;
      if (id === last) continue;
      last = id;
      if (id !== 0) ids.add(id);
    }
  }
  return [...ids].sort((a, b) => a - b);
}
