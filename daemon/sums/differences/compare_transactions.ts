/**
 * Compares the transactions in a box with the others. A transaction has a value if one of its own events has it: one that
 * its caller waited for. It has a device also if a request of others with its data was there while one of its syncs ran.
 */
import { isWrittenBack } from '../../../agent/recording/format/owner_columns.ts';
import { wordsOf } from '../../../agent/recording/words64.ts';
import { typeRows } from '../../../bpf/schema/block.ts';
import { ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import { bigColumn, column } from '../../store/blocks/column.ts';
import type { ScannedBlock } from '../../store/blocks/scanned_block.ts';
import { COMPARED_COLUMNS, type Comparer, TYPES } from './compare_events.ts';
import { comparisonOf } from './comparison.ts';
import { contextFinder, NOT_COMPARED, type PopulationRows } from './population.ts';
import { createProfiles, type Profile, type Profiles } from './profiles.ts';
import { type KeptEvent, keepEvents } from './recorded_parts.ts';
import { queueTimes, sideOf, sideSums } from './side_sums.ts';
import { createIntervals, type Intervals, KINDS } from './time_parts.ts';

const ORIGIN_CONTEXTS = Array.from({ length: ORIGINS_MAX }, (_, slot) => `block_io.origins_${slot}_context`);

/** Columns that a scan must read beside those of profiles. */
export const TRANSACTION_COLUMNS = [...COMPARED_COLUMNS, 'context', 'context_source', ...ORIGIN_CONTEXTS] as const;

const WORD = 2 ** 32;

/** Keeps the events of the transactions, and returns which values of their profiles each transaction has. */
export function gatherTransactions(population: PopulationRows, profiles: Pick<Profiles, 'numbersOf' | 'profiles'>) {
  const find = contextFinder(population);
  const kept = keepEvents(population.count);
  const startWords = wordsOf(population.startsNs);
  const durationOf = durationReader(population.durationsNs);
  let events = 0;

  return {
    add(scanned: ScannedBlock): void {
      events += scanned.block.rowCount;
      const numbers = profiles.numbersOf(scanned);
      const read = eventReader(scanned, startWords);
      const { types, places, contexts, isBack, originsOf } = ownersOf(scanned);
      for (let row = 0; row < scanned.block.rowCount; row++) {
        const owner = find(scanned.dictionary, contexts[row]!);
        const isOwn = owner !== NOT_COMPARED && !isBack(row);
        if (isOwn) kept.add(owner, read(row, numbers[row]!, owner, true));
        if (types[row] !== TYPES.request) continue;
        const carried = new Set<number>();
        for (const context of originsOf) carried.add(find(scanned.dictionary, context[places[row]!]!));
        if (!isOwn) carried.add(owner);
        for (const transaction of carried) {
          if (transaction === NOT_COMPARED || (isOwn && transaction === owner)) continue;
          const event = read(row, numbers[row]!, transaction, false);
          // Write-back mostly comes seconds after the end, which no caller waits for.
          if (event.start < durationOf(transaction)) kept.add(transaction, event);
        }
      }
    },
    /** `valueCount` is larger than the numbers of all values. */
    each: (valueCount: number): Each => carrierReader(population.count, kept, profiles.profiles, valueCount),
    get events() {
      return events;
    },
  };
}

export function compareTransactions(population: PopulationRows): Comparer {
  const profiles = createProfiles();
  const gathered = gatherTransactions(population, profiles);
  const durationOf = durationReader(population.durationsNs);
  return {
    add: gathered.add,
    finish() {
      const { events } = gathered;
      const { profiles: known, values } = profiles;
      const sides = [sideSums(), sideSums()] as const;
      const carriers = new Float64Array(values.length * 2);
      const intervals = createIntervals();
      const each = gathered.each(values.length);
      each(
        (transaction, own, its) => {
          const other = population.selected[transaction] === 1 ? 0 : 1;
          const side = sides[other]!;
          const duration = durationOf(transaction);
          side.count++;
          side.duration.add(duration);
          addTimes(intervals, own, its, known);
          for (const [part, ns] of Object.entries(intervals.parts(duration))) side.parts[part as 'sync'].add(ns);
        },
        (value, transaction) => {
          carriers[value * 2 + (population.selected[transaction] === 1 ? 0 : 1)]!++;
        },
      );
      const [selected, others] = [sideOf(sides[0]), sideOf(sides[1])];
      return comparisonOf(profiles, {
        ...{ selected, others, events, carriers },
        together: (wanted) => togetherIn(wanted, values.length, population.count, each),
      });
    },
  };
}

type Each = (
  onTransaction: (transaction: number, own: readonly KeptEvent[], its: readonly KeptEvent[]) => void,
  onValue: (value: number, transaction: number) => void,
) => void;

/** Goes through all transactions, and through the values of each: every value once. */
function carrierReader(
  count: number,
  kept: ReturnType<typeof keepEvents>,
  profiles: readonly Profile[],
  valueCount: number,
): Each {
  return (onTransaction, onValue) => {
    const lastOf = new Int32Array(valueCount).fill(NOT_COMPARED);
    const events: KeptEvent[] = [];
    for (let transaction = 0; transaction < count; transaction++) {
      const all = events.slice(0, kept.read(transaction, events));
      const isAllOwn = all.every(({ isOwn }) => isOwn);
      const own = isAllOwn ? all : all.filter(({ isOwn }) => isOwn);
      const its = isAllOwn ? [] : all.filter(({ isOwn }) => !isOwn);
      onTransaction(transaction, own, its);
      const see = (value: number) => {
        if (lastOf[value] === transaction) return;
        lastOf[value] = transaction;
        onValue(value, transaction);
      };
      for (const { profile } of own) for (const value of profiles[profile]!.values) see(value);
      const waited = its.length === 0 ? [] : its.filter((request) => isWaitedFor(request, own, profiles));
      for (const { profile } of waited) see(profiles[profile]!.device);
    }
  };
}

function isWaitedFor(request: KeptEvent, own: readonly KeptEvent[], profiles: readonly Profile[]): boolean {
  const { node } = profiles[request.profile]!;
  const end = request.start + request.duration;
  return own.some(
    ({ profile, start, duration }) =>
      profiles[profile]!.eventType === 'sys_sync' &&
      profiles[profile]!.node === node &&
      Math.max(start, request.start) < Math.min(start + duration, end),
  );
}

/** Counts the transactions that have both of two values: a bit for each transaction and value. */
function togetherIn(wanted: readonly number[], valueCount: number, count: number, each: Each) {
  // One value has nothing to be joined with.
  if (wanted.length < 2) return () => 0;
  const places = new Int32Array(valueCount).fill(NOT_COMPARED);
  for (const [i, value] of wanted.entries()) places[value] = i;
  const sets = wanted.map(() => new Uint32Array(Math.ceil(count / 32)));
  each(
    () => {},
    (value, transaction) => {
      const place = places[value]!;
      if (place !== NOT_COMPARED) sets[place]![transaction >>> 5]! |= 1 << (transaction & 31);
    },
  );
  return (a: number, b: number) => {
    const [one, other] = [sets[a]!, sets[b]!];
    let both = 0;
    for (let i = 0; i < one.length; i++) both += bitsIn(one[i]! & other[i]!);
    return both;
  };
}

function bitsIn(word: number): number {
  let bits = word - ((word >>> 1) & 0x5555_5555);
  bits = (bits & 0x3333_3333) + ((bits >>> 2) & 0x3333_3333);
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}

function addTimes(
  intervals: Intervals,
  own: readonly KeptEvent[],
  its: readonly KeptEvent[],
  profiles: readonly Profile[],
): void {
  intervals.clear();
  const nodes: string[] = [];
  for (const { profile, start, duration, queue, isOwn } of [...own, ...its]) {
    const { eventType, node } = profiles[profile]!;
    if (!nodes.includes(node)) nodes.push(node);
    const at = nodes.indexOf(node);
    const end = start + duration;
    if (eventType === 'sys_write') intervals.add(KINDS.write, at, start, end);
    else if (eventType === 'sys_sync') intervals.add(KINDS.sync, at, start, end);
    else if (eventType === 'block_io') {
      const sent = start + Math.min(queue, duration);
      intervals.add(isOwn ? KINDS.ownQueue : KINDS.itsQueue, at, start, sent);
      intervals.add(isOwn ? KINDS.ownService : KINDS.itsService, at, sent, end);
    }
  }
}

function durationReader(durationsNs: BigUint64Array): (row: number) => number {
  const words = wordsOf(durationsNs);
  return (row) => Math.min(words[row * 2 + 1]! * WORD + words[row * 2]!, Number.MAX_SAFE_INTEGER);
}

function ownersOf({ block }: ScannedBlock) {
  const sources = column(block, 'context_source');
  return {
    types: column(block, 'event_type'),
    places: typeRows(block),
    contexts: column(block, 'context'),
    isBack: (row: number) => isWrittenBack(sources[row]!),
    originsOf: ORIGIN_CONTEXTS.map((name) => column(block, name)),
  };
}

/** Returns a reader of rows; the object is reused. */
function eventReader({ block }: ScannedBlock, startWords: Uint32Array) {
  const [times, durations] = [wordsOf(bigColumn(block, 'timestamp_ns')), wordsOf(bigColumn(block, 'duration_ns'))];
  const types = column(block, 'event_type');
  const places = typeRows(block);
  const queueOf = queueTimes(bigColumn(block, 'block_io.queue_ns') as BigUint64Array);
  const event: KeptEvent = { profile: 0, start: 0, duration: 0, queue: 0, isOwn: true };
  return (row: number, profile: number, transaction: number, isOwn: boolean): KeptEvent => {
    const high = times[row * 2 + 1]! - startWords[transaction * 2 + 1]!;
    event.start = high * WORD + (times[row * 2]! - startWords[transaction * 2]!);
    event.duration = durations[row * 2 + 1]! * WORD + durations[row * 2]!;
    event.queue = types[row] === TYPES.request ? queueOf(places[row]!) : 0;
    event.profile = profile;
    event.isOwn = isOwn;
    return event;
  };
}
