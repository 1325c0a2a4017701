/**
 * Describes the columns of the event tables as vectors: which columns of the recording a scan must read, and how to
 * compute the values of a block from them.
 */
import type { ColumnArray } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import { getApiName } from '../../../bpf/schema/define.ts';
import { EVENTS, findEventDefinition } from '../../../bpf/schema/index.ts';
import type { Kind } from '../../../bpf/schema/kinds.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { nameError } from '../../store/blocks/errno.ts';
import { readBlockEvents } from '../../store/blocks/event.ts';
import type { RecordingBlock, RecordingDictionary } from '../../store/blocks/scanned_block.ts';
import type { FlatColumn } from '../flat_columns.ts';
import { toStorable } from '../formats/sqlite.ts';
import type { BatchColumn, ValuesPart } from './native_tables.ts';

export interface VectorColumn {
  /** Columns of the recording that the vector needs. */
  readonly needs: readonly string[];
  read(scanned: RecordingBlock): BatchColumn;
  /** Returns the text for a key of an event type. Defined only for columns whose values are keys. */
  getKeyText?(dictionary: RecordingDictionary, type: number, key: number | bigint): string | null;
}

type TextOf = (dictionary: RecordingDictionary, type: number, key: number) => string | null;

const getValues = ({ block }: RecordingBlock, name: string): ColumnArray => block.columns.get(name)!;

function number(name: string): VectorColumn {
  return { needs: [name], read: (scanned) => ({ form: 'number', values: getValues(scanned, name) }) };
}

function buildKeyedColumn(name: string, readText: TextOf): VectorColumn {
  return {
    needs: [name],
    read: (scanned) => ({ form: 'key', values: getValues(scanned, name) }),
    getKeyText: (dictionary, type, key) => readText(dictionary, type, Number(key)),
  };
}

const COMMON: Readonly<Record<string, VectorColumn>> = {
  event_id: {
    needs: [],
    read: ({ block, dictionary }) => ({
      form: 'numbered',
      text: `${dictionary.recordingId}-`,
      values: block.numbers,
    }),
  },
  event_type: buildKeyedColumn('event_type', (_, __, id) => findEventDefinition(id)!.name),
  timestamp_ns: number('timestamp_ns'),
  duration_ns: number('duration_ns'),
  pid: number('pid'),
  tid: number('tid'),
  cpu: number('cpu'),
  result: number('result'),
  comm: buildKeyedColumn('comm', ({ name }, _, id) => name(id)),
  service_name: buildKeyedColumn('service', ({ name }, _, id) => name(id)),
  transaction_id: buildKeyedColumn('context', ({ context }, _, id) => context(id).transactionId),
  trace_id: buildKeyedColumn('context', ({ context }, _, id) => context(id).traceId),
  span_id: buildKeyedColumn('context', ({ context }, _, id) => context(id).spanId),
  attribution_source: buildKeyedColumn('context_source', (_, __, id) => ATTRIBUTION_SOURCES[id]!),
  attribution_quality: buildKeyedColumn('context_quality', (_, __, id) => ATTRIBUTION_QUALITIES[id]!),
  error: {
    needs: ['result'],
    read: (scanned) => ({ form: 'negative_key', values: getValues(scanned, 'result') }),
    getKeyText: (_, __, result) => nameError(BigInt(result)),
  },
  node: { needs: [], read: ({ dictionary }) => ({ form: 'constant', text: dictionary.node }) },
};

interface VectorField {
  type: number;
  column: string;
  kind: Kind;
}

const OWN_FIELDS: readonly (VectorField & { name: string })[] = EVENTS.flatMap((event) =>
  Object.entries(event.fields)
    .filter(([field, { kind }]) => !(field in commonFields) && kind.columns.length > 0)
    .flatMap(([field, { kind, ...rest }]) => {
      const name = getApiName(field, { kind, ...rest });
      const column = `${event.name}.${name}`;
      const own = (of: string, from: string) => ({
        name: `${name}${of}`,
        type: event.id,
        column: `${column}${from}`,
        kind,
      });
      if (kind.source === 'queuer') return [own('_service_name', '_service'), own('_transaction_id', '_context')];
      return [own('', '')];
    }),
);

function own(fields: readonly VectorField[], name: string): VectorColumn | undefined {
  const [first] = fields;
  if (!first || fields.some(({ kind }) => kind.source === 'origins')) return undefined;
  const isNumber = first.kind.source === 'value' && !first.kind.labels;
  return {
    needs: fields.map(({ column }) => column),
    read(scanned) {
      const parts: (ValuesPart | undefined)[] = [];
      for (const { type, column, kind } of fields)
        parts[type] = { values: getValues(scanned, column), unknown: kind.unknown };
      const own = Array.from(parts);
      return isNumber ? { form: 'number', own } : { form: 'key', own };
    },
    getKeyText(dictionary, type, key) {
      const id = Number(key);
      const { source, labels } = fields.find((field) => field.type === type)!.kind;
      if (source === 'text') return dictionary.name(id);
      if (source === 'queuer')
        return name.endsWith('_transaction_id') ? dictionary.context(id).transactionId : dictionary.name(id) || null;
      if (source !== 'file') return labels!.get(id) ?? null;
      const file = dictionary.file(id);
      return name === 'file_kind' ? (file?.kind ?? 'unknown') : (file?.path ?? null);
    },
  };
}

/** Builds a column whose values are computed from event objects, row by row. */
function buildMadeColumn({ getValue }: FlatColumn): VectorColumn {
  return {
    needs: COLUMNS.map(({ name }) => name),
    read: (scanned) => ({
      form: 'made',
      rows: readBlockEvents(scanned).map((event) => toStorable(getValue(event))),
    }),
  };
}

/** Builds the vector for a column. Only fields of the event types in `types` are used. */
export function buildVectorColumn(column: FlatColumn, types: readonly number[]): VectorColumn {
  const { name } = column;
  const fieldName = name === 'file_kind' ? 'file' : name;
  const fields = OWN_FIELDS.filter((field) => field.name === fieldName && types.includes(field.type));
  return COMMON[name] ?? own(fields, name) ?? buildMadeColumn(column);
}
