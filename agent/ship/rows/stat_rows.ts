/** Rows of the table `stat`: sums of a segment by minute, owner, service and event type. */
import { EVENTS } from '../../../bpf/schema/index.ts';
import { type GroupSums, nativeSums } from '../../../bpf/schema/native_sums.ts';
import { wordsOf } from '../../recording/words64.ts';
import type { ShippedBlock, ShippedRecording } from './shipped_block.ts';
import type { TableRows } from './table_rows.ts';

export interface StatRows {
  add(shipped: ShippedBlock, firstNumber: number): void;
}

const MINUTE_NS = 60_000_000_000n;
const LOW_MASK = 2n ** 64n - 1n;
const EVENT_NAMES = new Map(EVENTS.map(({ id, name }) => [id, name]));
const TYPES_MAX = 256;

interface Group {
  minute: number;
  owner: string;
  service: string;
  eventType: string;
}

export function statRows({ recordingId, node }: ShippedRecording, rows: TableRows): StatRows {
  const recording = BigInt(`0x${recordingId}`);
  const sums = nativeSums.createSums();
  let numbers = new Uint32Array(0);

  function addRow({ minute, owner, service, eventType }: Group, firstNumber: bigint, of: GroupSums): void {
    const { slots, counts } = slotsOf(of.blocks);
    rows.add([
      minute,
      owner,
      service,
      node,
      eventType,
      recording,
      firstNumber,
      BigInt(of.count),
      BigInt(of.errorCount),
      of.bytes & LOW_MASK,
      of.bytes >> 64n,
      of.durationNs & LOW_MASK,
      of.durationNs >> 64n,
      of.maxNs,
      slots,
      counts,
    ]);
  }

  return {
    add(shipped, firstNumber) {
      const { block, rowCount } = shipped;
      if (numbers.length < rowCount) numbers = new Uint32Array(rowCount);
      const groups = numberGroups(shipped, numbers);
      const [durations, results] = [block.columns.get('duration_ns')!, block.columns.get('result')!];
      nativeSums.addRows(sums, numbers, 0, rowCount, durations, results);
      const first = BigInt(firstNumber);
      for (const of of nativeSums.takeSums(sums)) addRow(groups[of.number]!, first, of);
    },
  };
}

/** Sets the number of each row's group, and returns the groups. */
function numberGroups({ block, rowCount, names, owners, services }: ShippedBlock, numbers: Uint32Array): Group[] {
  const types = block.columns.get('event_type')! as Uint8Array;
  const minuteOf = minutes(block.columns.get('timestamp_ns')! as BigUint64Array);
  const groups: Group[] = [];
  const byMinute = new Map<number, Map<number, number>>();
  const width = names.entries.length;
  let lastMinute = -1;
  let known = new Map<number, number>();
  for (let row = 0; row < rowCount; row++) {
    const minute = minuteOf(row);
    if (minute !== lastMinute) {
      known = byMinute.get(minute) ?? new Map();
      byMinute.set(minute, known);
      lastMinute = minute;
    }
    // Below 2^53: a block has at most 4 names a row.
    const key = (owners[row]! * width + services[row]!) * TYPES_MAX + types[row]!;
    let number = known.get(key);
    if (number === undefined) {
      const [owner, service] = [names.entries[owners[row]!]!, names.entries[services[row]!]!];
      number = groups.push({ minute, owner, service, eventType: EVENT_NAMES.get(types[row]!) ?? '' }) - 1;
      known.set(key, number);
    }
    numbers[row] = number;
  }
  return groups;
}

/** Returns the minute of a row. Dividing each time would take longer than all the rest, so that waits for a new minute. */
function minutes(timestamps: BigUint64Array): (row: number) => number {
  const words = wordsOf(timestamps);
  let [minute, low, high, endLow, endHigh] = [0, 0, 0, 0, 0];
  return (row) => {
    const [rowLow, rowHigh] = [words[2 * row]!, words[2 * row + 1]!];
    const isFrom = rowHigh > high || (rowHigh === high && rowLow >= low);
    const isBelow = rowHigh < endHigh || (rowHigh === endHigh && rowLow < endLow);
    if (isFrom && isBelow) return minute;
    const found = timestamps[row]! / MINUTE_NS;
    minute = Number(found);
    [low, high] = split(found * MINUTE_NS);
    [endLow, endHigh] = split((found + 1n) * MINUTE_NS);
    return minute;
  };
}

function split(value: bigint): [low: number, high: number] {
  return [Number(value & 0xffff_ffffn), Number(value >> 32n)];
}

/** Slots of a histogram that have counts: daemon/sums/histogram.ts says what they are. */
function slotsOf(blocks: GroupSums['blocks']): { slots: number[]; counts: number[] } {
  const slots: number[] = [];
  const counts: number[] = [];
  for (const [block, values] of blocks.entries()) {
    if (!values) continue;
    for (let slot = 0; slot < values.length; slot++) {
      if (values[slot] === 0) continue;
      slots.push(block * values.length + slot);
      counts.push(values[slot]!);
    }
  }
  return { slots, counts };
}
