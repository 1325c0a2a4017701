/** Compares the events in a box with the other events of a scan. */
import { toWords } from '../../../agent/recording/words64.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { getBigColumn, getColumn, type ScannedBlock } from '../../store/blocks/scanned_block.ts';
import { type Box, createBoxTest } from '../box.ts';
import { readTimedRows } from '../heatmap.ts';
import { type Comparison, computeComparison, type DurationPart, PARTS, type Tallied } from './comparison.ts';
import { createProfiles, EVENT_FIELDS, type Profile } from './profiles.ts';
import { createGrowingCounts, createSideSums, sumSide } from './side_sums.ts';

export interface Comparer {
  /** Number of events that the comparer keeps in memory. */
  readonly kept: number;
  add(scanned: ScannedBlock): void;
  /** Returns the comparison; yields so that other work can run. */
  finish(): Generator<void, Comparison>;
}

/** Columns that a scan must read in addition to the columns of profiles. */
export const COMPARED_COLUMNS = ['timestamp_ns', 'duration_ns', 'result', 'event_type', 'block_io.queue_ns'] as const;

const findTypeId = (wanted: string) => EVENTS.find(({ name }) => name === wanted)!.id;
export const TYPES = {
  write: findTypeId('sys_write'),
  sync: findTypeId('sys_sync'),
  request: findTypeId('block_io'),
} as const;

const findPartIndex = (wanted: DurationPart) => PARTS.indexOf(wanted);
const QUEUE = findPartIndex('queue');
const SERVICE = findPartIndex('service');
const UNTRACED = findPartIndex('untraced');
/**
 * Maps the id of an event type to the part to which its events belong. Not used for requests, which have several parts.
 */
const PART_OF = new Uint8Array(256).fill(UNTRACED);
PART_OF[TYPES.write] = findPartIndex('write');
PART_OF[TYPES.sync] = findPartIndex('sync');

export function compareEvents(box: Box): Comparer {
  const profiles = createProfiles();
  /** Two counts for each profile: the number of its selected events, then of its other events. */
  const counts = createGrowingCounts();
  const sides = [createSideSums(), createSideSums()] as const;
  let events = 0;

  return {
    kept: 0,
    add(scanned) {
      const { block } = scanned;
      const rows = readTimedRows(scanned);
      const isSelected = createBoxTest(box, rows);
      const durations = toWords(rows.durationsNs);
      const queues = toWords(getBigColumn(block, 'block_io.queue_ns'));
      const types = getColumn(block, 'event_type');
      const numbers = profiles.assignNumbers(scanned);
      events += block.rowCount;
      for (let row = 0, requests = 0; row < block.rowCount; row++) {
        const other = isSelected(row) ? 0 : 1;
        const { parts, duration, medianDuration, medianParts } = sides[other]!;
        counts.add(numbers[row]! * 2 + other);
        sides[other]!.count++;
        const low = durations[row * 2]!;
        const high = durations[row * 2 + 1]!;
        duration.addWords(low, high);
        medianDuration.addWords(low, high);
        if (types[row] !== TYPES.request) {
          parts[PART_OF[types[row]!]!]!.addWords(low, high);
          medianParts[PART_OF[types[row]!]!]!.addWords(low, high);
          continue;
        }
        const [queueLow, queueHigh] = readQueueWait(queues, requests++);
        const isWhole = queueHigh > high || (queueHigh === high && queueLow >= low);
        parts[QUEUE]!.addWords(isWhole ? low : queueLow, isWhole ? high : queueHigh);
        medianParts[QUEUE]!.addWords(isWhole ? low : queueLow, isWhole ? high : queueHigh);
        if (isWhole) continue;
        const rest = low - queueLow;
        const restHigh = high - queueHigh - (rest < 0 ? 1 : 0);
        parts[SERVICE]!.addWords(rest >>> 0, restHigh);
        medianParts[SERVICE]!.addWords(rest >>> 0, restHigh);
      }
    },
    *finish() {
      const [selected, others] = sides;
      const tallied = tallyProfiles(profiles.profiles, profiles.values.length, counts.values);
      return yield* computeComparison(profiles, {
        ...tallied,
        fields: EVENT_FIELDS,
        events,
        selected: sumSide(selected),
        others: sumSide(others),
      });
    },
  };
}

/** Returns the wait of a request before its device got it, as words; 0 if the wait is unknown. */
function readQueueWait(queues: Uint32Array, request: number): [low: number, high: number] {
  const high = queues[request * 2 + 1]!;
  // An unknown wait is stored with all bits set.
  return high === 0xffff_ffff ? [0, 0] : [queues[request * 2]!, high];
}

function tallyProfiles(
  profiles: readonly Profile[],
  valueCount: number,
  counts: Float64Array,
): Pick<Tallied, 'carriers' | 'together'> {
  const carriers = new Float64Array(valueCount * 2);
  const getCount = (at: number) => counts[at] ?? 0;
  for (const [number, { values }] of profiles.entries()) {
    for (const value of values) {
      carriers[value * 2]! += getCount(number * 2);
      carriers[value * 2 + 1]! += getCount(number * 2 + 1);
    }
  }
  return {
    carriers,
    *together(wanted) {
      const both = new Float64Array(wanted.length ** 2);
      const placeOf = new Map(wanted.map((value, place) => [value, place]));
      for (const [number, { values }] of profiles.entries()) {
        const places = values.flatMap((value) => placeOf.get(value) ?? []);
        const events = getCount(number * 2) + getCount(number * 2 + 1);
        for (const a of places) for (const b of places) both[a * wanted.length + b]! += events;
      }
      return (a, b) => both[a * wanted.length + b]!;
    },
  };
}
