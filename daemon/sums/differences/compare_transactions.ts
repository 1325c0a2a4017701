/**
 * Compares the transactions in a box with the other transactions. A transaction has the values of its own events, for
 * which its caller waited. It also has a device in two other cases: one of its tasks queued a request there, even with
 * data of others; or another task's request with its data was under way there during one of its syncs.
 */
import { isWrittenBack } from '../../../agent/recording/format/owner_columns.ts';
import { findExtremes, toWords } from '../../../agent/recording/words64.ts';
import { ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import { getBigColumn, getColumn, type ScannedBlock } from '../../store/blocks/scanned_block.ts';
import { type Box, isOfTimeAlone } from '../box.ts';
import { createDistinctValues, createPairCounter, createWaitedPairs } from './carriers.ts';
import { COMPARED_COLUMNS, type Comparer, TYPES } from './compare_events.ts';
import { type Comparison, computeComparison, isComparable } from './comparison.ts';
import { createEventRows, type KeptEvents, keepEvents, ROLES, type TimeWords } from './kept_events.ts';
import { createNeighbourCarriers } from './neighbour_carriers.ts';
import { type GatheredNeighbours, gatherNeighbours } from './neighbours.ts';
import { createContextFinder, NOT_COMPARED, type PopulationRows } from './population.ts';
import { buildProfileColumns } from './profile_columns.ts';
import { createProfiles, EVENT_FIELDS, FIELDS, type FieldValue, type Profiles } from './profiles.ts';
import { createSideSums, sumSide } from './side_sums.ts';
import { createTransactionParts } from './transaction_parts.ts';

const ORIGIN_CONTEXTS = Array.from({ length: ORIGINS_MAX }, (_, slot) => `block_io.origins_${slot}_context`);

/** Columns that a scan must read in addition to the columns of profiles. */
export const TRANSACTION_COLUMNS = [
  ...COMPARED_COLUMNS,
  ...['tid', 'context', 'context_source', 'block_io.queued_by_context'],
  ...ORIGIN_CONTEXTS,
] as const;

const WORD = 2 ** 32;
/** Number of events between two yields, at which other work may run. */
export const A_STEP = 32_768;

/**
 * Passes the events of the transactions to `onEvent`: their own events, the requests that they queued, and the requests
 * of others that carry their data.
 */
export function gatherTransactions(
  population: PopulationRows,
  profiles: Pick<Profiles, 'assignNumbers'>,
  onEvent: KeptEvents['add'],
  neighbours?: GatheredNeighbours,
) {
  const createPlaceFinder = createContextFinder(population);
  let events = 0;

  return {
    get events() {
      return events;
    },
    add(scanned: ScannedBlock): void {
      const { block, dictionary } = scanned;
      events += block.rowCount;
      const numbers = profiles.assignNumbers(scanned);
      const findPlace = createPlaceFinder(dictionary);
      const types = getColumn(block, 'event_type');
      const contexts = getColumn(block, 'context');
      const sources = getColumn(block, 'context_source');
      const { computeTimes, beginsWithin } = createTimeReader(scanned, population);
      const carriedBy = createCarrierReader(scanned, findPlace);
      const queuers = getColumn(block, 'block_io.queued_by_context');
      const threads = getColumn(block, 'tid');
      const addRequest = neighbours?.open(scanned);
      for (let row = 0, requests = 0; row < block.rowCount; row++) {
        const request = types[row] === TYPES.request ? requests++ : -1;
        const owner = findPlace(contexts[row]!);
        const isOwn = owner !== NOT_COMPARED && !isWrittenBack(sources[row]!);
        if (isOwn) onEvent(owner, numbers[row]!, ROLES.own, computeTimes(row, request, owner), threads[row]!);
        if (request < 0) continue;
        addRequest?.(row, numbers[row]!);
        const queuer = findPlace(queuers[request]!);
        const isQueued = queuer !== NOT_COMPARED && !(isOwn && owner === queuer);
        if (isQueued) onEvent(queuer, numbers[row]!, ROLES.queued, computeTimes(row, request, queuer), threads[row]!);
        for (const transaction of carriedBy(request, owner, isOwn)) {
          if (transaction === NOT_COMPARED || transaction === queuer) continue;
          const times = computeTimes(row, request, transaction);
          // Write-back usually begins seconds after the transaction's end, when no caller waits for it.
          if (beginsWithin(times, transaction))
            onEvent(transaction, numbers[row]!, ROLES.carried, times, threads[row]!);
        }
      }
    },
  };
}

export function compareTransactions(population: PopulationRows, box: Box): Comparer {
  const profiles = createProfiles();
  const baseNs = population.count === 0 ? 0n : findExtremes(population.startsNs, 0, population.count).min;
  // Requests of others cost time and memory, so they are kept only if each side has enough transactions to compare.
  const hasNeighbours = isComparable(countSides(population)) && !isOfTimeAlone(box);
  const neighbours = hasNeighbours ? gatherNeighbours(profiles, baseNs) : undefined;
  const kept = keepEvents(population.count);
  const gathered = gatherTransactions(population, profiles, kept.add, neighbours);

  return {
    get kept() {
      return kept.count;
    },
    add: gathered.add,
    *finish(): Generator<void, Comparison> {
      const columns = buildProfileColumns(profiles.profiles);
      const valueCount = profiles.values.length;
      const finder = neighbours && (yield* neighbours.finish(population.count));
      const near = finder && createNeighbourCarriers(finder, { population, box, columns, baseNs });
      const sides = [createSideSums(), createSideSums()] as const;
      const carriers = new Float64Array(valueCount * 2);
      const parts = createTransactionParts(columns, kept, population.durationsNs);
      const values = createDistinctValues(columns, valueCount);
      const lengths = toWords(population.durationsNs);
      const waited = createWaitedPairs();
      const rows = createEventRows(1024);
      let [transaction, other] = [0, 0];
      const onValue = (value: number) => {
        carriers[value * 2 + other]!++;
      };
      const onDevice = (device: number) => {
        onValue(device);
        waited.add(transaction, device);
      };
      const onWaited = (device: number, profile: number, from: number) => {
        values.see(device, onDevice);
        near?.addWait(profile, from);
      };
      for (let done = 0; transaction < population.count; transaction++) {
        kept.read(transaction, rows);
        other = population.selected[transaction] === 1 ? 0 : 1;
        const side = sides[other]!;
        side.count++;
        side.duration.addWords(lengths[transaction * 2]!, lengths[transaction * 2 + 1]!);
        side.medianDuration.addWords(lengths[transaction * 2]!, lengths[transaction * 2 + 1]!);
        values.begin();
        values.seeOwn(rows, onValue);
        near?.begin(rows);
        const exact = parts.add(rows, transaction, side, onWaited);
        const looked = near?.count(rows, transaction, exact) ?? 0;
        done += rows.length + looked + 1;
        if (done < A_STEP) continue;
        done = 0;
        yield;
      }
      const carrying = { count: population.count, kept, columns, valueCount, waited: waited.pairs() };
      const getCarrierBits = (value: number) => near!.getCarrierBits(value - valueCount);
      return yield* computeComparison(addNeighbours(profiles, near?.values, neighbours && !near), {
        selected: sumSide(sides[0]),
        others: sumSide(sides[1]),
        events: gathered.events,
        fields: hasNeighbours ? FIELDS : EVENT_FIELDS,
        carriers: near ? joinCounts(carriers, near.counts) : carriers,
        listStrata: (value) => (value < valueCount ? undefined : near!.listStrata(value - valueCount)),
        together: (wanted) => createPairCounter(wanted, { ...carrying, getBits: getCarrierBits }),
      });
    },
  };
}

function countSides({ count, selected }: PopulationRows) {
  let inBox = 0;
  for (let row = 0; row < count; row++) inBox += selected[row]!;
  return { selected: inBox, others: count - inBox };
}

/** Appends the values of neighbours to the other values. */
function addNeighbours({ values, leftOut, isComplete }: Profiles, near: readonly FieldValue[] = [], isLeftOut = false) {
  return {
    values: [...values, ...near],
    leftOut: new Set([...leftOut, ...(isLeftOut ? (['neighbour'] as const) : [])]),
    isComplete: (value: FieldValue) => value.field === 'neighbour' || isComplete(value),
  };
}

function joinCounts(a: Float64Array, b: Float64Array): Float64Array {
  const all = new Float64Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

/**
 * Returns a function that returns the transactions whose data a request carries, in addition to its owner; the returned
 * array is reused.
 */
function createCarrierReader({ block }: ScannedBlock, findPlace: (context: number) => number) {
  const origins = ORIGIN_CONTEXTS.map((name) => getColumn(block, name));
  const found = new Int32Array(ORIGINS_MAX + 1);
  return (request: number, owner: number, isOwn: boolean): Int32Array => {
    found.fill(NOT_COMPARED);
    // If no thread of the owner caused the request, the kernel wrote back data of the owner as well.
    if (!isOwn) found[ORIGINS_MAX] = owner;
    for (let slot = 0; slot < ORIGINS_MAX; slot++) {
      const transaction = findPlace(origins[slot]![request]!);
      if (transaction !== owner && !found.includes(transaction)) found[slot] = transaction;
    }
    return found;
  };
}

/** Reads the times of rows relative to the start of a transaction; the returned object is reused. */
function createTimeReader({ block }: ScannedBlock, { startsNs, durationsNs }: PopulationRows) {
  const starts = toWords(startsNs);
  const lengths = toWords(durationsNs);
  const at = toWords(getBigColumn(block, 'timestamp_ns'));
  const durations = toWords(getBigColumn(block, 'duration_ns'));
  const queues = toWords(getBigColumn(block, 'block_io.queue_ns'));
  const times: TimeWords = { startLow: 0, startHigh: 0, durationLow: 0, durationHigh: 0, queueLow: 0, queueHigh: 0 };
  return {
    computeTimes(row: number, request: number, transaction: number): TimeWords {
      const low = at[row * 2]! - starts[transaction * 2]!;
      times.startLow = low;
      times.startHigh = at[row * 2 + 1]! - starts[transaction * 2 + 1]! - (low < 0 ? 1 : 0);
      times.durationLow = durations[row * 2]!;
      times.durationHigh = durations[row * 2 + 1]!;
      // An unknown time in the queue is stored with all bits set.
      const hasQueue = request >= 0 && queues[request * 2 + 1] !== 0xffff_ffff;
      times.queueLow = hasQueue ? queues[request * 2]! : 0;
      times.queueHigh = hasQueue ? queues[request * 2 + 1]! : 0;
      return times;
    },
    beginsWithin({ startLow, startHigh }: TimeWords, transaction: number): boolean {
      const length = lengths[transaction * 2 + 1]! * WORD + lengths[transaction * 2]!;
      return startHigh * WORD + (startLow < 0 ? startLow + WORD : startLow) < length;
    },
  };
}
