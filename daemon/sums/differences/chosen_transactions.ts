/**
 * Chooses transactions by the values of their events: a transaction is chosen if it has all wanted values and no
 * excluded value.
 */
import type { EventValues } from '../../../agent/recording/read/event_filter.ts';
import { createPathTest } from '../../base/file_pattern.ts';
import { nameError } from '../../store/blocks/errno.ts';
import { createRowNumbers } from '../../store/blocks/row_numbers.ts';
import type { ScannedBlock } from '../../store/blocks/scanned_block.ts';
import { type DimensionName, getDimension, type RowCodes } from '../dimensions.ts';
import { A_STEP, gatherTransactions, TRANSACTION_COLUMNS } from './compare_transactions.ts';
import { createEventRows, type EventRole, keepEvents, ROLES } from './kept_events.ts';
import type { PopulationRows } from './population.ts';
import { buildProfileColumns } from './profile_columns.ts';
import type { Profile } from './profiles.ts';
import { createSideSums } from './side_sums.ts';
import { createTransactionParts } from './transaction_parts.ts';

/**
 * Maximum number of events that are read for an answer that may have to keep all of them in memory until the last event
 * has been read.
 */
export const KEPT_EVENTS_MAX = 5_000_000;

export type ValueFilter = EventValues & { excluded?: EventValues };

const NONE = -1;

interface ValueCondition {
  field: DimensionName;
  isExcluded: boolean;
  isMet: (value: string) => boolean;
}

/** Lists the conditions that need events; the services and nodes of transactions are known without events. */
function listConditions({ excluded = {}, ...values }: ValueFilter): ValueCondition[] {
  return [...buildConditions(values, false), ...buildConditions(excluded, true)];
}

function buildConditions(lists: EventValues, isExcluded: boolean): ValueCondition[] {
  const { eventTypes, operations, syscalls, devices, comms, files, results } = lists;
  const errors = results?.map((result) => String(nameError(result)));
  const given = { event_type: eventTypes, operation: operations, syscall: syscalls, device: devices, comm: comms };
  return Object.entries({ ...given, file: files, error: errors }).flatMap(([field, list]) =>
    list ? [{ field: field as DimensionName, isExcluded, isMet: createFieldTest(field, list) }] : [],
  );
}

function createFieldTest(field: string, list: readonly string[]): (value: string) => boolean {
  if (field === 'file') return createPathTest(list);
  const texts = new Set(list);
  return (value) => texts.has(value);
}

/** Returns whether the events of transactions must be read to apply the filter. */
export function needsEvents(filter: ValueFilter): boolean {
  return listConditions(filter).length > 0;
}

/**
 * Returns whether an event must be kept. Most conditions of a transaction are decided by each event alone. A device,
 * however, also counts if a sync runs during a request to it, so syncs and the requests of others are kept.
 */
function isKept({ eventType, device }: Profile, role: EventRole): boolean {
  return role === ROLES.own ? eventType === 'sys_sync' : device !== NONE;
}

/** Lists the columns that a scan must read. */
export function listChoiceColumns(filter: ValueFilter): string[] {
  const fields = new Set([...PLACE_FIELDS, ...listConditions(filter).map(({ field }) => field)]);
  return [...new Set([...TRANSACTION_COLUMNS, ...[...fields].flatMap((field) => getDimension(field).columns)])];
}

export interface TransactionChooser {
  /** Number of events that are kept. */
  readonly kept: number;
  add(scanned: ScannedBlock): void;
  /** Returns 1 for each chosen row of the population; yields so that other work can run. */
  finish(): Generator<void, Uint8Array>;
}

export function createTransactionChooser(population: PopulationRows, filter: ValueFilter): TransactionChooser {
  const conditions = listConditions(filter);
  const known = createConditionProfiles(conditions);
  const hasDevices = conditions.some(({ field }) => field === 'device');
  const kept = keepEvents(hasDevices ? population.count : 0);
  const met = new Uint16Array(population.count);
  const { add } = gatherTransactions(population, known, (transaction, number, role, times, thread) => {
    const profile = known.profiles[number]!;
    if (role === ROLES.own) met[transaction]! |= toBitMask(profile.values);
    if (hasDevices && isKept(profile, role)) kept.add(transaction, number, role, times, thread);
  });

  function* meetDevices(): Generator<void, void> {
    const parts = createTransactionParts(buildProfileColumns(known.profiles), kept, population.durationsNs);
    const rows = createEventRows(1024);
    const side = createSideSums();
    let transaction = 0;
    const onDevice = (condition: number) => {
      met[transaction]! |= 1 << condition;
    };
    for (let done = 0; transaction < population.count; transaction++) {
      kept.read(transaction, rows);
      parts.add(rows, transaction, side, onDevice);
      done += rows.length + 1;
      if (done < A_STEP) continue;
      done = 0;
      yield;
    }
  }

  return {
    get kept() {
      return kept.count;
    },
    add,
    *finish() {
      if (hasDevices) yield* meetDevices();
      const wanted = conditions.reduce((bits, { isExcluded }, i) => (isExcluded ? bits : bits | (1 << i)), 0);
      return Uint8Array.from(met, (bits) => (bits === wanted ? 1 : 0));
    },
  };
}

function toBitMask(conditions: readonly number[]): number {
  let bits = 0;
  for (const condition of conditions) bits |= 1 << condition;
  return bits;
}

/** Fields that determine whether a sync waited for a request. */
const PLACE_FIELDS = ['event_type', 'node'] as const;

/** Creates profiles of events; the values of a profile are the conditions that its events meet. */
function createConditionProfiles(conditions: readonly ValueCondition[]) {
  const fields = [...new Set<DimensionName>([...PLACE_FIELDS, ...conditions.map(({ field }) => field)])];
  const profiles: Profile[] = [];
  let numbers = new Uint32Array(0);
  const rows = createRowNumbers<[eventType: string, node: string, device: number, ...met: number[]]>(
    fields.length,
    ([eventType, node, device, ...values]) => void profiles.push({ values, eventType, node, device }),
  );
  /**
   * Excluded devices come first: a transaction that has an excluded device is not chosen, even if it has a wanted
   * device.
   */
  const deviceConditions = [...conditions.keys()]
    .filter((i) => conditions[i]!.field === 'device')
    .sort((a, b) => Number(conditions[b]!.isExcluded) - Number(conditions[a]!.isExcluded));

  return {
    profiles,
    assignNumbers(scanned: ScannedBlock): Uint32Array {
      const { rowCount } = scanned.block;
      if (numbers.length < rowCount) numbers = new Uint32Array(rowCount);
      const readers = fields.map((name) => getDimension(name).open(scanned));
      const codes = readers.map((one) => one.codes ?? collectCodes(one, rowCount));
      const isMetBy = (row: number) => (i: number) => {
        const { field, isMet } = conditions[i]!;
        const reader = readers[fields.indexOf(field)]!;
        const value = reader.describeCode(reader.readCode(row));
        return value !== null && isMet(String(value));
      };
      rows.setNumbers(
        { codes, from: 0, to: rowCount, scope: scanned.dictionary },
        (row) => {
          const isMet = isMetBy(row);
          const met = [...conditions.keys()].filter(isMet);
          const [eventType, node] = readers.map((one) => String(one.describeCode(one.readCode(row))));
          return [eventType!, node!, deviceConditions.find(isMet) ?? NONE, ...met];
        },
        numbers,
      );
      return numbers;
    },
  };
}

function collectCodes({ readCode }: RowCodes, rowCount: number): Float64Array {
  const codes = new Float64Array(rowCount);
  for (let row = 0; row < rowCount; row++) codes[row] = readCode(row);
  return codes;
}
