/**
 * Assigns numbers to the profiles of events: rows whose values are the same in all compared fields have the same
 * profile. There are few profiles, so values are examined once for each profile and not for each event.
 */
import { buildFolderPattern, buildPathPattern, isPatternOfFolder } from '../../base/file_pattern.ts';
import { createRowNumbers } from '../../store/blocks/row_numbers.ts';
import type { Dictionary, ScannedBlock } from '../../store/blocks/scanned_block.ts';
import { type DimensionName, type DimensionValue, getDimension, type RowCodes } from '../dimensions.ts';

/** Fields in which events, and transactions, are compared. */
export const EVENT_FIELDS = [
  ...(['service', 'node', 'event_type', 'operation', 'syscall', 'device', 'comm', 'file'] as const),
  'error',
] as const satisfies readonly DimensionName[];

/** All fields; only transactions have `neighbour`. */
export const FIELDS = [...EVENT_FIELDS, 'neighbour'] as const;

type EventField = (typeof EVENT_FIELDS)[number];
export type ProfileField = (typeof FIELDS)[number];

/**
 * Number of profiles above which the field with the most values is left out; at each further multiple, another field is
 * left out. Files are left out before their folders.
 */
export const PROFILES_MAX = 100_000;

/** Columns that a scan must read. */
export const PROFILE_COLUMNS: readonly string[] = [
  ...new Set(EVENT_FIELDS.flatMap((name) => getDimension(name).columns)),
];

export interface FieldValue {
  field: ProfileField;
  /** The value in the form that a filter takes: for a file, the pattern of its path or of its folder. */
  value: string;
  /** The device that the transaction and the neighbour used. */
  device?: string;
}

export interface Profile {
  /** Numbers of the profile's values. */
  values: readonly number[];
  eventType: string;
  node: string;
  /** Number of the device's value; -1 if the profile has no device. */
  device: number;
}

export interface Profiles {
  /** Returns the profile number of each row, in an array that the next call overwrites. */
  assignNumbers(scanned: ScannedBlock): Uint32Array;
  readonly profiles: readonly Profile[];
  readonly values: readonly FieldValue[];
  /** Fields that were left out because they have too many values. */
  readonly leftOut: ReadonlySet<ProfileField>;
  /** Returns whether all events that have the value were counted. */
  isComplete(value: FieldValue): boolean;
}

/** A field, or a kind of value, that may be left out. */
type OmittableField = ProfileField | 'folder';

export function createProfiles(profilesMax = PROFILES_MAX): Profiles {
  const values: FieldValue[] = [];
  const numberOfValue = new Map<string, number>();
  const valueCounts = new Map<OmittableField, number>();
  const profiles: Profile[] = [];
  const leftOut = new Set<OmittableField>();
  const folders = createFolderCodes();
  let numbers = new Uint32Array(0);
  /** Whether the files of the present block are replaced by the patterns of their folders. */
  let areFolders = false;
  /** Buffers for the codes of each field; `none` is used for all fields that are left out. */
  let buffers = EVENT_FIELDS.map(() => new Float64Array(0));
  let none = new Float64Array(0);

  function assignValueNumber(field: ProfileField, value: string): number {
    const key = `${field} ${value}`;
    let number = numberOfValue.get(key);
    if (number === undefined) {
      number = values.push({ field, value }) - 1;
      numberOfValue.set(key, number);
      const part = choosePart({ field, value });
      valueCounts.set(part, (valueCounts.get(part) ?? 0) + 1);
    }
    return number;
  }

  function leaveOutMost(): void {
    const [most] = [...valueCounts].filter(([part]) => !leftOut.has(part)).sort(([, a], [, b]) => b - a);
    if (!most) return;
    leftOut.add(most[0]);
    // If folders have the most values, each file has its own folder, so files are left out too.
    if (most[0] === 'folder') leftOut.add('file');
  }

  function addProfile(meaning: readonly DimensionValue[]): void {
    const given = EVENT_FIELDS.flatMap((field, i) =>
      meaning[i] === null ? [] : [{ field, value: String(meaning[i]) }],
    );
    const findValue = (wanted: ProfileField) => given.find(({ field }) => field === wanted);
    const listPatterns = ({ field, value }: FieldValue) =>
      field === 'file' && !areFolders ? listFilePatterns(value) : [value];
    const own = given.flatMap((one) => listPatterns(one).map((value) => ({ ...one, value })));
    const device = findValue('device');
    profiles.push({
      values: own.map(({ field, value }) => assignValueNumber(field, value)),
      eventType: findValue('event_type')?.value ?? '',
      node: findValue('node')?.value ?? '',
      device: device ? assignValueNumber('device', device.value) : -1,
    });
    if (profiles.length > profilesMax * (leftOut.size + 1)) leaveOutMost();
  }

  const rows = createRowNumbers<readonly DimensionValue[]>(EVENT_FIELDS.length, addProfile);

  return {
    assignNumbers(scanned) {
      const { rowCount } = scanned.block;
      if (numbers.length < rowCount) {
        numbers = new Uint32Array(rowCount);
        none = new Float64Array(rowCount);
        buffers = EVENT_FIELDS.map(() => new Float64Array(rowCount));
      }
      areFolders = leftOut.has('file');
      const open = (name: EventField) =>
        name === 'file' && areFolders ? folders.open(scanned) : getDimension(name).open(scanned);
      const readers = EVENT_FIELDS.map(open);
      const isIn = EVENT_FIELDS.map((name) => !leftOut.has(name === 'file' ? 'folder' : name) || isNeeded(name));
      const codes = readers.map((one, i) =>
        isIn[i] ? (one.codes ?? writeCodes(one.readCode, rowCount, buffers[i]!)) : none,
      );
      const readMeaning = (row: number) =>
        readers.map((one, i) => (isIn[i] ? one.describeCode(one.readCode(row)) : null));
      rows.setNumbers({ codes, from: 0, to: rowCount, scope: scanned.dictionary }, readMeaning, numbers);
      return numbers;
    },
    profiles,
    values,
    get leftOut() {
      return new Set([...leftOut].filter((part) => part !== 'folder'));
    },
    isComplete: (value) => !leftOut.has(choosePart(value)),
  };
}

function choosePart(value: FieldValue): OmittableField {
  return isFolder(value) ? 'folder' : value.field;
}

export function isFolder({ field, value }: FieldValue): boolean {
  return field === 'file' && isPatternOfFolder(value);
}

/**
 * Returns whether the sums of time need the field even if the comparison leaves it out. The needed fields have few
 * values.
 */
function isNeeded(field: ProfileField): boolean {
  return field === 'event_type' || field === 'node' || field === 'device';
}

/**
 * Lists the pattern of the path and the pattern of its folder: a cause is often a folder in which each transaction has
 * a separate file.
 */
function listFilePatterns(path: string): string[] {
  const folder = buildFolderPattern(path);
  return [buildPathPattern(path), ...(folder === undefined ? [] : [folder])];
}

/** Creates codes for the folders of files; files in the same folder have the same code. */
function createFolderCodes() {
  const numbers = new Map<string | null, number>();
  const texts: (string | null)[] = [];
  const known = new WeakMap<Dictionary, Map<number, number>>();

  function assignFolderNumber(path: string | null): number {
    // A file without a folder has no pattern, so it is left out.
    const text = path === null ? null : (buildFolderPattern(path) ?? null);
    const number = numbers.get(text) ?? texts.push(text) - 1;
    numbers.set(text, number);
    return number;
  }

  return {
    open(scanned: ScannedBlock): RowCodes {
      const files = getDimension('file').open(scanned);
      const codes = known.get(scanned.dictionary) ?? new Map<number, number>();
      known.set(scanned.dictionary, codes);
      const getPath = (code: number) => files.describeCode(code) as string | null;
      return {
        readCode(row) {
          const file = files.readCode(row);
          let code = codes.get(file);
          if (code === undefined) {
            code = -2 - assignFolderNumber(getPath(file));
            codes.set(file, code);
          }
          return code;
        },
        describeCode: (code) => texts[-2 - code]!,
      };
    },
  };
}

function writeCodes(readCode: (row: number) => number, rowCount: number, codes: Float64Array): Float64Array {
  for (let row = 0; row < rowCount; row++) codes[row] = readCode(row);
  return codes;
}
