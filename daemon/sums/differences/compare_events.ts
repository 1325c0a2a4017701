/** Compares the events in a box with the others of a scan. */
import { wordsOf } from '../../../agent/recording/words64.ts';
import { typeRows } from '../../../bpf/schema/block.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { bigColumn, column } from '../../store/blocks/column.ts';
import type { ScannedBlock } from '../../store/blocks/scanned_block.ts';
import { type Box, boxTest } from '../box.ts';
import { timedRows } from '../heatmap.ts';
import { type Comparison, comparisonOf, type Tallied } from './comparison.ts';
import { createProfiles, type Profile } from './profiles.ts';
import { growingCounts, queueTimes, sideOf, sideSums } from './side_sums.ts';

export interface Comparer {
  add(scanned: ScannedBlock): void;
  finish(): Comparison;
}

/** Columns that a scan must read beside those of profiles. */
export const COMPARED_COLUMNS = ['timestamp_ns', 'duration_ns', 'result', 'event_type', 'block_io.queue_ns'] as const;

const idOf = (wanted: string) => EVENTS.find(({ name }) => name === wanted)!.id;
export const TYPES = { write: idOf('sys_write'), sync: idOf('sys_sync'), request: idOf('block_io') } as const;

const WORD = 2 ** 32;

export function compareEvents(box: Box): Comparer {
  const profiles = createProfiles();
  /** Events of each profile, selected and others alternating. */
  const counts = growingCounts();
  const sides = [sideSums(), sideSums()] as const;
  let events = 0;

  return {
    add(scanned) {
      const { block } = scanned;
      const rows = timedRows(scanned);
      const isSelected = boxTest(box, rows);
      const durations = wordsOf(rows.durationsNs);
      const types = column(block, 'event_type');
      const places = typeRows(block);
      const queueOf = queueTimes(bigColumn(block, 'block_io.queue_ns') as BigUint64Array);
      const numbers = profiles.numbersOf(scanned);
      events += block.rowCount;
      for (let row = 0; row < block.rowCount; row++) {
        const other = isSelected(row) ? 0 : 1;
        const side = sides[other]!;
        counts.add(numbers[row]! * 2 + other);
        side.count++;
        const duration = Math.min(durations[row * 2 + 1]! * WORD + durations[row * 2]!, Number.MAX_SAFE_INTEGER);
        side.duration.add(duration);
        const type = types[row]!;
        if (type === TYPES.request) {
          const queue = Math.min(queueOf(places[row]!), duration);
          side.parts.queue.add(queue);
          side.parts.service.add(duration - queue);
        } else if (type === TYPES.sync) side.parts.sync.add(duration);
        else if (type === TYPES.write) side.parts.write.add(duration);
        else side.parts.untraced.add(duration);
      }
    },
    finish() {
      const [selected, others] = sides;
      const tallied = tallyOf(profiles.profiles, profiles.values.length, counts.values);
      return comparisonOf(profiles, { ...tallied, selected: sideOf(selected), others: sideOf(others), events });
    },
  };
}

function tallyOf(
  profiles: readonly Profile[],
  valueCount: number,
  counts: Float64Array,
): Pick<Tallied, 'carriers' | 'together'> {
  const carriers = new Float64Array(valueCount * 2);
  const countOf = (at: number) => counts[at] ?? 0;
  for (const [number, { values }] of profiles.entries()) {
    for (const value of values) {
      carriers[value * 2]! += countOf(number * 2);
      carriers[value * 2 + 1]! += countOf(number * 2 + 1);
    }
  }
  return {
    carriers,
    together(wanted) {
      const profilesOf = new Map(wanted.map((value) => [value, new Set<number>()]));
      for (const [number, { values }] of profiles.entries())
        for (const value of values) profilesOf.get(value)?.add(number);
      const sets = wanted.map((value) => profilesOf.get(value)!);
      return (a, b) => {
        let both = 0;
        for (const number of sets[a]!) if (sets[b]!.has(number)) both += countOf(number * 2) + countOf(number * 2 + 1);
        return both;
      };
    },
  };
}
