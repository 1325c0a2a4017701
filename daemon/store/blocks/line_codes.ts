/** The codes of a line's rows: the numbers in their recordings that stand for names. */
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { column } from './column.ts';
import { type EventRoles, queuerContext } from './event_roles.ts';
import { type Dictionary, RECORDING_COLUMN, type ScannedBlock } from './scanned_block.ts';

/** Columns with a code for each event, named like the codes. */
const COMMON = ['pid', 'tid', 'comm', 'service', 'context', 'context_source', 'context_quality', 'event_type'] as const;
const CODES = [...COMMON, 'dictionary', 'recording', 'operation', 'place', 'queuer'] as const;

export type LineCodes = Record<(typeof CODES)[number], Uint32Array>;

export function newLineCodes(length: number): LineCodes {
  return Object.fromEntries(CODES.map((name) => [name, new Uint32Array(length)])) as LineCodes;
}

/** The dictionaries that resolve the codes. */
export interface Dictionaries {
  /** Returns the number of a dictionary. */
  codeOf(dictionary: Dictionary): number;
  at(code: number): Dictionary;
  readonly count: number;
}

export function dictionaryCodes(): Dictionaries {
  const dictionaries: Dictionary[] = [];
  const codes = new Map<Dictionary, number>();
  return {
    codeOf(dictionary) {
      let code = codes.get(dictionary);
      if (code === undefined) {
        code = dictionaries.push(dictionary) - 1;
        codes.set(dictionary, code);
      }
      return code;
    },
    at: (code) => dictionaries[code]!,
    get count() {
      return dictionaries.length;
    },
  };
}

/** Sets the codes of the block's rows from `at` on; those that only some types have are 0. */
export function setCodes(to: LineCodes, at: number, { block }: ScannedBlock, dictionaryCode: number): void {
  const { rowCount } = block;
  for (const name of COMMON) copyCodes(column(block, name), to[name], at, rowCount);
  to.dictionary.fill(dictionaryCode, at, at + rowCount);
  const recordings = block.columns.get(RECORDING_COLUMN) as Uint32Array | undefined;
  if (recordings) copyCodes(recordings, to.recording, at, rowCount);
  else to.recording.fill(0, at, at + rowCount);
  to.operation.fill(0, at, at + rowCount);
  to.place.fill(0, at, at + rowCount);
  to.queuer.fill(0, at, at + rowCount);
}

/** Sets the codes of the events of a type, whose rows in the line are `rows`. */
export function setOwnCodes(to: LineCodes, block: NumberedBlock, roles: EventRoles, rows: Uint32Array): void {
  const { operation, place, queuer } = roles;
  if (operation) scatterCodes(column(block, operation.column), to.operation, rows);
  if (place) scatterCodes(column(block, place.column), to.place, rows);
  if (queuer) scatterCodes(column(block, queuerContext(queuer)), to.queuer, rows);
}

function copyCodes(from: ArrayLike<number>, to: Uint32Array, at: number, count: number): void {
  for (let i = 0; i < count; i++) to[at + i] = from[i]!;
}

function scatterCodes(from: ArrayLike<number>, to: Uint32Array, rows: Uint32Array): void {
  for (let i = 0; i < rows.length; i++) to[rows[i]!] = from[i]!;
}
