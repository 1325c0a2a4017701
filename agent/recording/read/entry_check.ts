/**
 * Checks the entries of segments against their events: a scan relies on an entry to skip its segment, so one that
 * denies an event hides it.
 */
import type { Block, ColumnArray } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { type ColumnFacts, decodeFacts, distinctValues, extremesByType, hasInFilter } from '../codec/column_facts.ts';
import { segmentFacts, WITH_EXTREMES, WITH_MEMBERS } from '../codec/segment_facts.ts';
import { OWNERS } from '../format/owner_columns.ts';
import { factsSeed } from '../format/pieces.ts';
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
  /** Describes entries that are wrong, at most so many. Segments that cannot be read are left out. */
  wrongEntries(most: number): string[];
}

/** `everything` is a filter that all events match. */
export function openEntryCheck(source: ScanSource, everything: () => ResolvedFilter | undefined): EntryCheck {
  function describeWrongEntry(meta: SegmentMeta): string[] {
    try {
      const segment = source.open(meta);
      const wrong = segment && wrongWith(segment, source.columnIds());
      return wrong ? [`the entry of the segment that begins with event ${meta.firstNumber} ${wrong}`] : [];
    } catch (error) {
      if (!(error instanceof UnreadableSegment)) throw error;
      return [];
    }
  }

  return {
    wrongEntries(most) {
      const filter = everything();
      if (!filter) return [];
      const { index } = source;
      const plan = source.inTransaction(() => planUnordered({ index, columnIds: source.columnIds(), filter }));
      const found: string[] = [];
      while (found.length < most) {
        const segments = source.inTransaction(plan.nextSealed);
        if (!segments) break;
        for (const meta of segments) found.push(...source.inTransaction(() => describeWrongEntry(meta)));
      }
      return [...found, ...source.inTransaction(() => plan.tail().flatMap(describeWrongEntry))].slice(0, most);
    },
  };
}

/** Says what is wrong with the entry; undefined when nothing is. */
function wrongWith(segment: Segment, columnIds: ReadonlyMap<string, number>): string | undefined {
  const { meta, rowCount } = segment;
  if (rowCount === 0) return undefined;
  const block = readSegmentBlock(segment);
  const range = { from: 0, to: rowCount, typeFrom: new Uint32Array(block.typeCounts.length), typeTo: block.typeCounts };
  const { minTimestampNs, maxTimestampNs, maxDurationNs, typeMask, services } = segmentFacts(block, range);
  const denies =
    minTimestampNs < meta.minNs ||
    maxTimestampNs > meta.maxNs ||
    maxDurationNs > meta.maxDurationNs ||
    (typeMask & ~meta.typeMask) !== 0n ||
    services.some((id) => !meta.services.includes(id));
  if (denies) return 'denies events that it has';
  if (!meta.facts) return undefined;
  const facts = decodeFacts(meta.facts, factsSeed(meta.firstNumber), () => true);
  if (!facts) return 'has damaged facts';
  const of = (name: string): ColumnFacts => facts.get(columnIds.get(name) ?? -1) ?? {};
  const isTrue =
    WITH_MEMBERS.every((name) => hasMembers(of(name), block.columns.get(name)! as Uint32Array)) &&
    WITH_EXTREMES.every((name) => hasExtremes(of(name), block, block.columns.get(name)! as BigUint64Array));
  return isTrue ? undefined : 'has facts that deny its events';
}

function readSegmentBlock(segment: Segment): Block {
  const typeCounts = new Uint32Array(Math.max(...EVENTS.map(({ id }) => id)) + 1);
  for (const { id } of EVENTS) typeCounts[id] = segment.typeRowCount(id);
  const columns = new Map<string, ColumnArray>(READ.map((column) => [column.name, segment.column(column)]));
  return { rowCount: segment.rowCount, typeCounts, columns };
}

function hasMembers({ ranges, filter }: ColumnFacts, values: Uint32Array): boolean {
  return distinctValues(values, 0, values.length).every(
    (value) =>
      (!ranges || ranges.some(({ from, to }) => from <= value && value <= to)) &&
      (!filter || hasInFilter(filter, value)),
  );
}

function hasExtremes({ extremes }: ColumnFacts, block: Block, values: BigUint64Array): boolean {
  if (!extremes) return true;
  const types = block.columns.get('event_type')! as Uint8Array;
  return extremesByType(types, values, 0, values.length).every(({ eventType, min, max }) =>
    extremes.some((stored) => stored.eventType === eventType && stored.min <= min && stored.max >= max),
  );
}
