/**
 * Builds columns from the lines of an answer of type `application/vnd.kreplay.columns`. Each line is checked in full
 * before its events are added, so an answer of another version causes an error with an explanation instead of a wrong
 * picture.
 */

import { parseJson } from '../../base/exact_json.ts';
import { growArray } from '../../base/growing_array.ts';
import {
  createExactValues,
  type EventColumns,
  type EventOwner,
  EXACT_FIELDS,
  type ExactField,
  type OriginOwner,
  type Recording,
  type Thread,
  type What,
} from './event_columns.ts';
import { INTEGER, type ParsedFields, parseIndex, parseInteger, parseList, parseRecord, parseText } from './parsed.ts';

export interface ColumnsBuilder {
  /** Reads one line. Throws an Error that names the line and its fault; the builder must not be used after an error. */
  add(line: string): void;
  /** Returns a copy of the events so far; it may be called before the last line, for a first picture. */
  finish(): EventColumns;
  readonly count: number;
  /**
   * Coverage of the answer, with exact integers as in a JSON page. It is null until the last line has been read, so an
   * answer that leaves it null was cut off.
   */
  readonly coverage: object | null;
}

const INDEXES = { thread: 'threads', what: 'whats', owner: 'owners' } as const;
const NULLABLE: readonly ExactField[] = ['bytes', 'queue'];

type ColumnStore = Omit<EventColumns, 'baseNs' | 'count' | keyof ColumnDictionaries | 'origins'> & {
  originRow: Uint32Array;
  originOwner: Uint32Array;
  originBytes: BigUint64Array;
};

export function createColumnsBuilder(): ColumnsBuilder {
  const dictionaries = createDictionaries();
  const store: ColumnStore = { ...createEmptyArrays(), exact: createExactValues() };
  const originOwners = new Map<string, number>();
  let [lines, count, originCount] = [0, 0, 0];
  let baseNs: bigint | undefined;
  let coverage: object | null = null;

  function addEvents(line: ParsedFields): void {
    const lineBaseNs = parseInteger(line.base_ns, 'base_ns', true);
    baseNs ??= lineBaseNs;
    const length = parseList(line.start, 'start').length;
    if (lines === 1) parseRecord(line.types, 'types');
    readDictionaries(dictionaries, line);
    grow(store, ROW_ARRAYS, count + length);
    for (const field of EXACT_FIELDS) readIntegers(store, field, line, count, length);
    rebase(store, count, length, lineBaseNs - baseNs);
    const types = parseList(line.type, 'type', length);
    for (let i = 0; i < length; i++) store.type[count + i] = parseIndex(types[i], 256, 'type');
    for (const [field, dictionary] of Object.entries(INDEXES)) {
      const values = parseList(line[field], field, length);
      const size = dictionaries[dictionary].length;
      const into = store[field as keyof typeof INDEXES];
      for (let i = 0; i < length; i++) into[count + i] = parseIndex(values[i], size, field);
    }
    addOrigins(line.origins === undefined ? [] : parseList(line.origins, 'origins'), length);
    count += length;
  }

  function addOrigins(origins: readonly unknown[], length: number): void {
    grow(store, ORIGIN_ARRAYS, originCount + origins.length);
    let last = 0;
    for (const [i, origin] of origins.entries()) {
      const [row, service, transactionId, bytes] = parseList(origin, 'origins', 4);
      const key = JSON.stringify([service, transactionId]);
      if (typeof service !== 'string' || (typeof transactionId !== 'string' && transactionId !== null))
        throw new Error('origins has an owner that is none');
      if (!originOwners.has(key)) {
        originOwners.set(key, dictionaries.originOwners.length);
        dictionaries.originOwners.push({ service, transactionId });
      }
      if (parseIndex(row, length, 'origins') < last) throw new Error('origins is not in order of row');
      last = row as number;
      store.originRow[originCount + i] = count + last;
      store.originOwner[originCount + i] = originOwners.get(key)!;
      store.originBytes[originCount + i] = parseInteger(bytes, 'origins', false);
    }
    originCount += origins.length;
  }

  function add(line: string): void {
    lines++;
    try {
      if (coverage) throw new Error('it comes after the last one');
      const parsed = parseRecord(JSON.parse(line), 'it');
      // The gaps of the coverage have times, which are bare integers that plain JSON.parse would round.
      if (Object.hasOwn(parsed, 'coverage'))
        coverage = parseRecord(parseRecord(parseJson(line), 'it').coverage, 'coverage');
      else addEvents(parsed);
    } catch (error) {
      throw new Error(`line ${lines} of the events cannot be read: ${error instanceof Error ? error.message : error}`);
    }
  }

  function finish(): EventColumns {
    const { originRow, originOwner, originBytes, exact, ...arrays } = store;
    const { originOwners: owners, ...named } = structuredClone(dictionaries);
    const rows = Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, array.slice(0, count)]));
    const origins = {
      row: originRow.slice(0, originCount),
      owner: originOwner.slice(0, originCount),
      bytes: originBytes.slice(0, originCount),
      owners,
    };
    return {
      ...(rows as typeof arrays),
      ...named,
      exact: structuredClone(exact),
      count,
      baseNs: baseNs ?? 0n,
      origins,
    };
  }

  return {
    add,
    finish,
    get count() {
      return count;
    },
    get coverage() {
      return coverage;
    },
  };
}

const ROW_ARRAYS = [...EXACT_FIELDS, 'type', 'thread', 'what', 'owner'] as const;
const ORIGIN_ARRAYS = ['originRow', 'originOwner', 'originBytes'] as const;

function createEmptyArrays(): Omit<ColumnStore, 'exact'> {
  const createFloats = () => new Float64Array(0);
  const createIndexes = () => new Uint32Array(0);
  return {
    start: createFloats(),
    duration: createFloats(),
    result: createFloats(),
    bytes: createFloats(),
    queue: createFloats(),
    number: createFloats(),
    type: new Uint8Array(0),
    thread: createIndexes(),
    what: createIndexes(),
    owner: createIndexes(),
    originRow: createIndexes(),
    originOwner: createIndexes(),
    originBytes: new BigUint64Array(0),
  };
}

type ArrayName = (typeof ROW_ARRAYS)[number] | (typeof ORIGIN_ARRAYS)[number];

/** Minimum length of an array that is not empty, so that a small answer does not grow its arrays often. */
const ROWS_MIN = 4096;

/** Grows the arrays to at least `length` elements. */
function grow(store: ColumnStore, names: readonly ArrayName[], length: number): void {
  for (const name of names) {
    const old = store[name];
    if (old.length >= length) continue;
    (store as Record<ArrayName, typeof old>)[name] = growArray(old, Math.max(length, ROWS_MIN));
  }
}

function readIntegers(store: ColumnStore, field: ExactField, line: ParsedFields, count: number, length: number): void {
  const values = parseList(line[field], field, length);
  const into = store[field];
  const exact = store.exact[field];
  const isNullable = NULLABLE.includes(field);
  const isSigned = field === 'result';
  for (let i = 0; i < length; i++) {
    const value = values[i];
    if (typeof value === 'number' && Number.isSafeInteger(value) && (value >= 0 || isSigned)) into[count + i] = value;
    else if (value === null && isNullable) into[count + i] = Number.NaN;
    else if (typeof value === 'string' && INTEGER.test(value)) {
      into[count + i] = Number(value);
      exact.set(count + i, parseInteger(value, field, isSigned));
    } else throw new Error(`${field} has a value that is no integer in its range`);
  }
}

/** Converts offsets that refer to the base of a line to offsets that refer to the base of the first line. */
function rebase({ start, exact }: ColumnStore, count: number, length: number, deltaNs: bigint): void {
  const delta = Number(deltaNs);
  let last = count > 0 ? start[count - 1]! : 0;
  for (let row = count; row < count + length; row++) {
    const known = exact.start.get(row);
    let offset = start[row]! + delta;
    if (known !== undefined || !Number.isSafeInteger(offset) || !Number.isSafeInteger(delta)) {
      const exactOffset = (known ?? BigInt(start[row]!)) + deltaNs;
      offset = Number(exactOffset);
      if (Number.isSafeInteger(offset)) exact.start.delete(row);
      else exact.start.set(row, exactOffset);
    }
    start[row] = offset;
    if (offset < last) throw new Error('the events are not in order of start');
    last = offset;
  }
}

/* The dictionaries of an answer: each line brings the entries that are new in that line. */

interface ColumnDictionaries {
  types: Map<number, string>;
  recordings: Recording[];
  threads: Thread[];
  whats: What[];
  owners: EventOwner[];
  errors: Map<number, string>;
  originOwners: OriginOwner[];
}

const createDictionaries = (): ColumnDictionaries => ({
  types: new Map(),
  recordings: [],
  threads: [],
  whats: [],
  owners: [],
  errors: new Map(),
  originOwners: [],
});

/** Adds the new entries of a line; the line leaves out each dictionary that has no new entries. */
function readDictionaries(dictionaries: ColumnDictionaries, line: ParsedFields): void {
  for (const entry of parseEntries(line, 'recordings', 2)) {
    const [recordingId, node] = entry.map((value) => parseText(value, 'recordings'));
    dictionaries.recordings.push({ recordingId: recordingId!, node: node! });
  }
  for (const [recording, pid, tid, comm, service] of parseEntries(line, 'threads', 5))
    dictionaries.threads.push({
      recording: parseIndex(recording, dictionaries.recordings.length, 'threads'),
      pid: parseIndex(pid, 2 ** 32, 'threads'),
      tid: parseIndex(tid, 2 ** 32, 'threads'),
      comm: parseText(comm, 'threads'),
      service: parseText(service, 'threads'),
    });
  for (const [operation, target, fileKind] of parseEntries(line, 'whats', 3))
    dictionaries.whats.push({
      operation: parseTextOrNull(operation, 'whats') ?? '',
      target: parseTextOrNull(target, 'whats'),
      fileKind: parseTextOrNull(fileKind, 'whats'),
    });
  for (const [transactionId, source, quality, queuedBy] of parseEntries(line, 'owners', 4))
    dictionaries.owners.push({
      transactionId: parseTextOrNull(transactionId, 'owners'),
      source: parseText(source, 'owners'),
      quality: parseText(quality, 'owners'),
      queuedBy: parseTextOrNull(queuedBy, 'owners'),
    });
  readNames(dictionaries.types, line, 'types');
  readNames(dictionaries.errors, line, 'errors');
}

function parseEntries(line: ParsedFields, name: string, length: number): (readonly unknown[])[] {
  if (!Object.hasOwn(line, name)) return [];
  return parseList(line[name], name).map((entry) => parseList(entry, `an entry of ${name}`, length));
}

const parseTextOrNull = (value: unknown, name: string) => (value === null ? null : parseText(value, name));

function readNames(names: Map<number, string>, line: ParsedFields, name: string): void {
  if (!Object.hasOwn(line, name)) return;
  for (const [number, text] of Object.entries(parseRecord(line[name], name))) {
    if (!INTEGER.test(number)) throw new Error(`${name} has a key that is no integer`);
    names.set(Number(number), parseText(text, name));
  }
}
