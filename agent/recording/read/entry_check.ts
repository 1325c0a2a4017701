/**
 * Checks the entries of the segment table against the events of their segments. A scan skips segments by their entries,
 * so a wrong entry can hide events.
 */
import type { Block, ColumnArray } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import {
  type ColumnFacts,
  decodeFacts,
  findDistinctValues,
  findExtremesByType,
  hasInFilter,
} from '../codec/column_facts.ts';
import { computeSegmentFacts, WITH_EXTREMES, WITH_MEMBERS } from '../codec/segment_facts.ts';
import { OWNERS } from '../format/owner_columns.ts';
import { computeFactsSeed } from '../format/pieces.ts';
import type { ResolvedFilter } from './event_filter.ts';
import { planUnordered, type ScanSource } from './scan.ts';
import { type Segment, UnreadableSegment } from './segment.ts';
import type { SegmentMeta } from './segment_index.ts';

const NEEDED = new Set([
  ...['event_type', 'timestamp_ns', ...WITH_EXTREMES, ...WITH_MEMBERS],
  ...OWNERS.map(({ service }) => service.name),
]);
const READ = COLUMNS.filter(({ name }) => NEEDED.has(name));

export interface EntryCheck {
  /** Describes wrong entries, at most `most` of them. Unreadable segments are skipped. */
  findWrongEntries(most: number): string[];
}

/** Opens the check. `everything` returns a filter that all events match. */
export function openEntryCheck(source: ScanSource, everything: () => ResolvedFilter | undefined): EntryCheck {
  function describeWrongEntry(meta: SegmentMeta): string[] {
    try {
      const segment = source.open(meta);
      const wrong = segment && describeMismatch(segment, source.columnIds());
      return wrong ? [`the entry of the segment that begins with event ${meta.firstNumber} ${wrong}`] : [];
    } catch (error) {
      if (!(error instanceof UnreadableSegment)) throw error;
      return [];
    }
  }

  return {
    findWrongEntries(most) {
      const filter = everything();
      if (!filter) return [];
      const { index } = source;
      const plan = source.runInTransaction(() => planUnordered({ index, columnIds: source.columnIds(), filter }));
      const found: string[] = [];
      while (found.length < most) {
        const segments = source.runInTransaction(plan.readNextSealed);
        if (!segments) break;
        for (const meta of segments) found.push(...source.runInTransaction(() => describeWrongEntry(meta)));
      }
      return [...found, ...source.runInTransaction(() => plan.tail().flatMap(describeWrongEntry))].slice(0, most);
    },
  };
}

/** Describes the error in a segment's entry; returns undefined if the entry is correct. */
function describeMismatch(segment: Segment, columnIds: ReadonlyMap<string, number>): string | undefined {
  const { meta, rowCount } = segment;
  if (rowCount === 0) return undefined;
  const block = readSegmentBlock(segment);
  const range = { from: 0, to: rowCount, typeFrom: new Uint32Array(block.typeCounts.length), typeTo: block.typeCounts };
  const { minTimestampNs, maxTimestampNs, maxDurationNs, typeMask, services } = computeSegmentFacts(block, range);
  const denies =
    minTimestampNs < meta.minNs ||
    maxTimestampNs > meta.maxNs ||
    maxDurationNs > meta.maxDurationNs ||
    (typeMask & ~meta.typeMask) !== 0n ||
    services.some((id) => !meta.services.includes(id));
  if (denies) return 'denies events that it has';
  if (!meta.facts) return undefined;
  const facts = decodeFacts(meta.facts, computeFactsSeed(meta.firstNumber), () => true);
  if (!facts) return 'has damaged facts';
  const getFacts = (name: string): ColumnFacts => facts.get(columnIds.get(name) ?? -1) ?? {};
  const isTrue =
    WITH_MEMBERS.every((name) => hasMembers(getFacts(name), block.columns.get(name)! as Uint32Array)) &&
    WITH_EXTREMES.every((name) => hasExtremes(getFacts(name), block, block.columns.get(name)! as BigUint64Array));
  return isTrue ? undefined : 'has facts that deny its events';
}

function readSegmentBlock(segment: Segment): Block {
  const typeCounts = new Uint32Array(Math.max(...EVENTS.map(({ id }) => id)) + 1);
  for (const { id } of EVENTS) typeCounts[id] = segment.typeRowCount(id);
  const columns = new Map<string, ColumnArray>(READ.map((column) => [column.name, segment.readColumn(column)]));
  return { rowCount: segment.rowCount, typeCounts, columns };
}

function hasMembers({ ranges, filter }: ColumnFacts, values: Uint32Array): boolean {
  return findDistinctValues(values, 0, values.length).every(
    (value) =>
      (!ranges || ranges.some(({ from, to }) => from <= value && value <= to)) &&
      (!filter || hasInFilter(filter, value)),
  );
}

function hasExtremes({ extremes }: ColumnFacts, block: Block, values: BigUint64Array): boolean {
  if (!extremes) return true;
  const types = block.columns.get('event_type')! as Uint8Array;
  return findExtremesByType(types, values, 0, values.length).every(({ eventType, min, max }) =>
    extremes.some((stored) => stored.eventType === eventType && stored.min <= min && stored.max >= max),
  );
}
