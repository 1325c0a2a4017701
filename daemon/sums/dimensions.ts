/** Dimensions by which events can be grouped: the columns of each dimension, and the value of a row. */
import { type ColumnArray, type NumberedBlock, typeRows } from '../../bpf/schema/block.ts';
import { EVENTS, findEventDefinition } from '../../bpf/schema/index.ts';
import { ATTRIBUTION_QUALITIES } from '../../bpf/schema/owner.ts';
import { nameError } from '../store/blocks/errno.ts';
import { getStoredText, selectFields } from '../store/blocks/named_fields.ts';
import { createRecordingReader, type Dictionary, type ScannedBlock } from '../store/blocks/scanned_block.ts';

export type DimensionValue = string | number | null;

interface Dimension {
  columns: readonly string[];
  open(scanned: ScannedBlock): RowCodes;
}

/** The codes of a block's rows. */
export interface RowCodes {
  /**
   * Returns a number for a row, which is the same for equal values within one dictionary; `describeCode` converts it to
   * the value.
   */
  readCode: (row: number) => number;
  describeCode: (code: number) => DimensionValue;
  /** All codes, if a column of the block contains them. */
  codes?: ColumnArray;
}

const getCodes = (block: NumberedBlock, name: string) => block.columns.get(name) as Uint32Array;

/** Creates a dimension for a numeric column that all events have. */
function createCommonDimension(
  column: string,
  describeCode: (code: number, dictionary: Dictionary) => DimensionValue,
): Dimension {
  return {
    columns: [column],
    open({ block, dictionary }) {
      const codes = getCodes(block, column);
      return { codes, readCode: (row) => codes[row]!, describeCode: (code) => describeCode(code, dictionary) };
    },
  };
}

const NOT_THERE = -1;

/** Builds a dimension for a field that only some types of events have; its value is null for events of other types. */
function buildOwnDimension(name: string): Dimension {
  const owners = EVENTS.flatMap((event) =>
    selectFields(event, (other) => other === name).map((field) => ({ id: event.id, ...field })),
  );
  const kindOf = new Map(owners.map(({ id, kind }) => [id, kind]));
  return {
    columns: owners.map(({ column }) => column),
    open({ block, dictionary }) {
      const types = getCodes(block, 'event_type');
      const places = typeRows(block);
      const byType: (Uint32Array | undefined)[] = [];
      for (const { id, column } of owners) byType[id] = getCodes(block, column);
      return {
        // The code includes the type, because another type may use the same number for another value.
        readCode: (row) => {
          const codes = byType[types[row]!];
          return codes ? codes[places[row]!]! * 256 + types[row]! : NOT_THERE;
        },
        describeCode: (code) =>
          code === NOT_THERE ? null : getStoredText(kindOf.get(code % 256)!, Math.floor(code / 256), dictionary),
      };
    },
  };
}

const DIMENSIONS = {
  service: createCommonDimension('service', (code, dictionary) => dictionary.name(code)),
  event_type: createCommonDimension('event_type', (code) => findEventDefinition(code)!.name),
  node: {
    columns: [],
    open: ({ block, dictionary }) => ({
      readCode: createRecordingReader(block),
      describeCode: (code) => dictionary.recording(code).node,
    }),
  },
  operation: buildOwnDimension('operation'),
  syscall: buildOwnDimension('syscall'),
  device: buildOwnDimension('device'),
  file: buildOwnDimension('file'),
  comm: createCommonDimension('comm', (code, dictionary) => dictionary.name(code)),
  pid: createCommonDimension('pid', (code) => code),
  quality: createCommonDimension('context_quality', (code) => ATTRIBUTION_QUALITIES[code] ?? null),
  transaction_id: createCommonDimension('context', (code, dictionary) => dictionary.context(code).transactionId),
  error: {
    columns: ['result'],
    open({ block }) {
      const results = block.columns.get('result') as BigInt64Array;
      const words = new Int32Array(results.buffer, results.byteOffset, results.length * 2);
      return {
        // A double represents all error numbers exactly, and other negative numbers down to -2^53.
        readCode: (row) => (words[row * 2 + 1]! < 0 ? words[row * 2 + 1]! * 2 ** 32 + (words[row * 2]! >>> 0) : 0),
        describeCode: (code) => nameError(BigInt(code)),
      };
    },
  },
} as const satisfies Record<string, Dimension>;

export type DimensionName = keyof typeof DIMENSIONS;

export const DIMENSION_NAMES = Object.keys(DIMENSIONS) as [DimensionName, ...DimensionName[]];

export function getDimension(name: DimensionName): Dimension {
  return DIMENSIONS[name];
}
