/** Reads what is in progress, and what was when a writer ended. */
import type Database from 'better-sqlite3';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { HEAD_BYTES } from '../codec/encode_segment.ts';
import { corrupt } from '../format/errors.ts';
import { IN_PROGRESS, IN_PROGRESS_UNLISTED, UNFINISHED } from '../format/in_progress.ts';
import { toStored, U64_MAX } from '../format/schema.ts';
import { gather } from './assemble_block.ts';
import type { DamageNotes } from './damage_notes.ts';
import type { EventFilter, ResolvedFilter } from './event_filter.ts';
import { matchingRows } from './match.ts';
import { type ColumnLocations, openSegment, type Segment, UnreadableSegment } from './segment.ts';

const VALUES = `SELECT key, value FROM meta WHERE key IN ('${IN_PROGRESS}', '${IN_PROGRESS_UNLISTED}', '${UNFINISHED}')`;
const REMOVED_UNTIL = "SELECT max(to_ns) FROM loss WHERE cause = 'retention'";

const NOTHING = { inProgress: undefined, unfinished: undefined, unlisted: { count: 0, sinceNs: 0n } };
const TIMESTAMP = COLUMNS.find(({ name }) => name === 'timestamp_ns')!;
const ALL_TYPES = 2n ** 63n - 1n;

export interface UnendedEvents {
  /**
   * Events without their ends: `duration_ns` and `result` are 0, and numbers mean nothing. They are in progress as far
   * as the writer has committed; if it has ended, at its end.
   */
  inProgress: NumberedBlock | undefined;
  /** Others in progress, of any kind, which began at `sinceNs` or later. */
  unlisted: { count: number; sinceNs: bigint };
  /** Those that were in progress when an earlier writer ended; `losses` has each, too. */
  unfinished: NumberedBlock | undefined;
}

export interface UnendedReader {
  /** Selects by what is known of an event without its end: durations, results and errors count as matching. */
  unended(filter: EventFilter): UnendedEvents;
}

export function openUnended(
  database: Database.Database,
  locations: () => ColumnLocations,
  resolve: (filter: EventFilter) => ResolvedFilter | undefined,
  { addEntry }: DamageNotes,
): UnendedReader {
  const values = database.prepare<[], [string, unknown]>(VALUES).raw();
  const removedUntil = database.prepare<[], bigint | null>(REMOVED_UNTIL).pluck().safeIntegers();

  function blockOf(bytes: unknown, filter: ResolvedFilter | undefined): NumberedBlock | undefined {
    if (bytes === undefined || !filter) return undefined;
    const segment = segmentOf(bytes, locations());
    const rows = matchingRows(segment, filter, Number.POSITIVE_INFINITY);
    return rows.length > 0 ? gather([{ segment, rows }], COLUMNS, () => {}) : undefined;
  }

  return {
    unended(filter) {
      const said = new Map(values.all());
      if (said.size === 0) return NOTHING;
      const known = resolve(withoutEnds(filter));
      const count = Number(said.get(IN_PROGRESS_UNLISTED) ?? 0);
      if (!Number.isSafeInteger(count) || count < 0) throw corrupt('its number of calls in progress is malformed');
      const keptNs = removedUntil.get() ?? 0n;
      const kept = known && { ...known, firstNs: known.firstNs > keptNs ? known.firstNs : keptNs };
      try {
        const inProgress = said.get(IN_PROGRESS);
        const sinceNs = count > 0 && inProgress !== undefined ? lastStart(segmentOf(inProgress, locations())) : 0n;
        return {
          inProgress: blockOf(inProgress, known),
          unfinished: blockOf(said.get(UNFINISHED), kept),
          unlisted: { count, sinceNs },
        };
      } catch (error) {
        if (!(error instanceof UnreadableSegment)) throw error;
        addEntry();
        return NOTHING;
      }
    },
  };
}

/** The conditions that can be judged without an end. */
function withoutEnds(filter: EventFilter): EventFilter {
  const { minDurationNs: _, maxDurationNs: _1, failed: _2, results: _3, excluded, ...others } = filter;
  if (!excluded) return others;
  const { results: _4, ...kept } = excluded;
  return { ...others, excluded: kept };
}

/** Those that began first are listed, in that order. */
function lastStart(segment: Segment): bigint {
  return (segment.column(TIMESTAMP) as BigUint64Array).at(-1) ?? 0n;
}

function segmentOf(bytes: unknown, locations: ColumnLocations): Segment {
  if (!Buffer.isBuffer(bytes) || bytes.length < HEAD_BYTES) throw corrupt('its list of calls in progress is malformed');
  const eventCount = bytes.readUInt16LE(4);
  const meta = {
    ...{ firstNumber: 0, endNumber: eventCount, eventCount, sealed: false, services: new Uint32Array() },
    ...{ typeMask: ALL_TYPES, minNs: 0n, maxNs: toStored(U64_MAX), maxDurationNs: 0n, facts: undefined },
  };
  return openSegment(meta, { whole: bytes, piece: () => bytes }, locations);
}
