/**
 * Numbers the profiles of events: rows whose values are the same in all compared fields have the same profile. There are
 * few profiles, so values are looked at once for each and not for each event.
 */
import { rowNumbers } from '../../store/blocks/row_numbers.ts';
import type { ScannedBlock } from '../../store/blocks/scanned_block.ts';
import { type DimensionName, type DimensionValue, dimension } from '../dimensions.ts';

export const FIELDS = [
  ...(['service', 'node', 'event_type', 'operation', 'syscall', 'device', 'comm', 'file'] as const),
  'error',
] as const satisfies readonly DimensionName[];

export type Field = (typeof FIELDS)[number];

/** Number of profiles beyond which the field with the most values is left out, and again for each as many. */
export const PROFILES_MAX = 100_000;

/** Columns that a scan must read. */
export const PROFILE_COLUMNS: readonly string[] = [...new Set(FIELDS.flatMap((name) => dimension(name).columns))];

export interface FieldValue {
  field: Field;
  /** A path that ends in a star stands for all files of that folder. */
  value: string;
}

export interface Profile {
  /** Numbers of its values. */
  values: readonly number[];
  eventType: string;
  node: string;
  /** Number of its value for the device, or -1. */
  device: number;
}

export interface Profiles {
  /** Returns the number of each row's profile; the next call overwrites them. */
  numbersOf(scanned: ScannedBlock): Uint32Array;
  readonly profiles: readonly Profile[];
  readonly values: readonly FieldValue[];
  /** Fields of which there were too many values. */
  readonly leftOut: ReadonlySet<Field>;
}

export function createProfiles(profilesMax = PROFILES_MAX): Profiles {
  const values: FieldValue[] = [];
  const numberOfValue = new Map<string, number>();
  const valueCounts = new Map<Field, number>();
  const profiles: Profile[] = [];
  const leftOut = new Set<Field>();
  let numbers = new Uint32Array(0);
  let none = new Float64Array(0);

  function valueNumber(field: Field, value: string): number {
    const key = `${field} ${value}`;
    let number = numberOfValue.get(key);
    if (number === undefined) {
      number = values.push({ field, value }) - 1;
      numberOfValue.set(key, number);
      valueCounts.set(field, (valueCounts.get(field) ?? 0) + 1);
    }
    return number;
  }

  function leaveOutMost(): void {
    const [most] = [...valueCounts].filter(([field]) => !leftOut.has(field)).sort(([, a], [, b]) => b - a);
    if (most) leftOut.add(most[0]);
  }

  function addProfile(meaning: readonly DimensionValue[]): void {
    const given = FIELDS.flatMap((field, i) => (meaning[i] === null ? [] : [{ field, value: String(meaning[i]) }]));
    const of = (wanted: Field) => given.find(({ field }) => field === wanted);
    const own = given.flatMap(({ field, value }) => [value, ...foldersOf(field, value)].map((one) => ({ field, one })));
    const device = of('device');
    profiles.push({
      values: own.map(({ field, one }) => valueNumber(field, one)),
      eventType: of('event_type')?.value ?? '',
      node: of('node')?.value ?? '',
      device: device ? valueNumber('device', device.value) : -1,
    });
    if (profiles.length > profilesMax * (leftOut.size + 1)) leaveOutMost();
  }

  const rows = rowNumbers<readonly DimensionValue[]>(FIELDS.length, addProfile);

  return {
    numbersOf(scanned) {
      const { rowCount } = scanned.block;
      if (numbers.length < rowCount) {
        numbers = new Uint32Array(rowCount);
        none = new Float64Array(rowCount);
      }
      const readers = FIELDS.map((name) => dimension(name).open(scanned));
      const isIn = FIELDS.map((name) => !leftOut.has(name) || isNeeded(name));
      const codes = readers.map((one, i) => (isIn[i] ? (one.codes ?? codesOf(one.codeAt, rowCount)) : none));
      const meaningOf = (row: number) => readers.map((one, i) => (isIn[i] ? one.meaningOf(one.codeAt(row)) : null));
      rows.setNumbers({ codes, from: 0, to: rowCount, scope: scanned.dictionary }, meaningOf, numbers);
      return numbers;
    },
    profiles,
    values,
    leftOut,
  };
}

/** Whether the sums of time need the field, too; such have few values. */
function isNeeded(field: Field): boolean {
  return field === 'event_type' || field === 'node' || field === 'device';
}

/** A cause often is a folder, in which each transaction has a file of its own. */
function foldersOf(field: Field, value: string): string[] {
  const end = value.lastIndexOf('/');
  return field === 'file' && end > 0 ? [`${value.slice(0, end)}/*`] : [];
}

function codesOf(codeAt: (row: number) => number, rowCount: number): Float64Array {
  const codes = new Float64Array(rowCount);
  for (let row = 0; row < rowCount; row++) codes[row] = codeAt(row);
  return codes;
}
