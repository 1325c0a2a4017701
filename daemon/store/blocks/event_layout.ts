/** The layout of an event as JSON, derived from the definitions in bpf/schema: which column or text each part shows. */
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import { apiName } from '../../../bpf/schema/define.ts';
import { EVENTS, type EventDefinition, eventById } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX, type Storage } from '../../../bpf/schema/kinds.ts';
import { JSON_OPS, type JsonPart } from '../../../bpf/schema/native_json.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { stringify } from '../../exact_json.ts';
import { errorName } from './errno.ts';
import { type Dictionary, RECORDING_COLUMN } from './scanned_block.ts';

/** Makes the text for the values of a key's columns; one of 64 bits is two words, the low one first. */
type TextMaker = (dictionary: Dictionary, values: readonly number[]) => string;

export interface TextTable {
  /** Storages of the columns that make up a key. */
  storages: readonly Storage[];
  make: TextMaker;
}

export interface EventLayout {
  /** Names of the columns, by their index in the parts. */
  columns: readonly string[];
  common: readonly JsonPart[];
  /** Parts of each event type, by its id. */
  own: readonly (readonly JsonPart[] | undefined)[];
  /** The parts' `table` is an index here. */
  tables: readonly TextTable[];
}

/** The column with the number of each row, which a block keeps beside its columns. */
export const NUMBER_COLUMN = 'number';

const STORAGES = new Map<string, Storage>([
  ...COLUMNS.map(({ name, storage }) => [name, storage] as const),
  [NUMBER_COLUMN, 'u64'],
  [RECORDING_COLUMN, 'u32'],
]);

/** Returns the fields of an object as text to insert into another object. */
function fieldsOf(values: object): string {
  const inner = stringify(values).slice(1, -1);
  return inner === '' ? '' : `,${inner}`;
}

const head = (name: string) => `,${JSON.stringify(name)}:`;

export function layoutOfEvents(): EventLayout {
  const columns: string[] = [];
  const tables: TextTable[] = [];

  function indexOf(name: string): number {
    const known = columns.indexOf(name);
    return known === -1 ? columns.push(name) - 1 : known;
  }

  function part(
    op: keyof typeof JSON_OPS,
    before: string,
    names: readonly string[],
    more?: Partial<JsonPart>,
  ): JsonPart {
    const of = Uint32Array.from(names, indexOf);
    return { op: JSON_OPS[op], before: Buffer.from(before), columns: of, table: 0, unknown: undefined, ...more };
  }

  function table(names: readonly string[], make: TextMaker): { table: number } {
    return { table: tables.push({ storages: names.map((name) => STORAGES.get(name)!), make }) - 1 };
  }

  const text = (names: readonly string[], make: TextMaker) => part('text', '', names, table(names, make));

  function commonParts(): JsonPart[] {
    return [
      text([RECORDING_COLUMN], ({ recording }, [index]) => `{"event_id":"${recording(index!).recordingId}-`),
      part('hex', '', [NUMBER_COLUMN]),
      text(['event_type'], (_, [type]) => `","event_type":${stringify(eventById(type!)!.name)},"timestamp_ns":`),
      part('number', '', ['timestamp_ns']),
      part('number', head('duration_ns'), ['duration_ns']),
      text(['service', 'context', 'context_source', 'context_quality', RECORDING_COLUMN], ownerText),
      part('number', head('pid'), ['pid']),
      part('number', head('tid'), ['tid']),
      text(['comm'], ({ name }, [id]) => fieldsOf({ comm: name(id!) })),
      part('number', head('cpu'), ['cpu']),
      part('number', head('result'), ['result']),
      part('negative_text', '', ['result'], table(['result'], errorText)),
    ];
  }

  function ownParts(event: EventDefinition): JsonPart[] {
    return Object.entries(event.fields)
      .filter(([name, { kind }]) => !(name in commonFields) && kind.columns.length > 0)
      .flatMap(([fieldName, field]) => {
        const name = apiName(fieldName, field);
        return fieldParts(name, field.kind, `${event.name}.${name}`);
      });
  }

  function fieldParts(name: string, { source, labels, unknown }: Kind, column: string): JsonPart[] {
    if (source === 'text') return [text([column], (dictionary, [id]) => fieldsOf({ [name]: dictionary.name(id!) }))];
    if (source === 'file') return [text([column], (dictionary, [id]) => fileText(name, dictionary, id!))];
    if (source === 'origins') return [originsPart(name, column)];
    if (labels) return [text([column], (_, [value]) => fieldsOf({ [name]: labels.get(value!) }))];
    return [part('number', head(name), [column], { unknown })];
  }

  function originsPart(name: string, column: string): JsonPart {
    const slots = Array.from({ length: ORIGINS_MAX }, (_, slot) => `${column}_${slot}`);
    const owner = table([`${slots[0]}_service`, `${slots[0]}_context`], (dictionary, [service, context]) => {
      const { transactionId } = dictionary.context(context!);
      const fields = fieldsOf({ service_name: dictionary.name(service!), transaction_id: transactionId });
      return `{${fields.slice(1)},"bytes":`;
    });
    const names = slots.flatMap((slot) => [`${slot}_service`, `${slot}_context`, `${slot}_bytes`]);
    return part('list', `${head(name)}[`, names, owner);
  }

  const common = commonParts();
  const own: (JsonPart[] | undefined)[] = [];
  for (const event of EVENTS) own[event.id] = ownParts(event);
  return { columns, common, own: Array.from(own), tables };
}

function ownerText(dictionary: Dictionary, [service, context, source, quality, recording]: readonly number[]): string {
  const { transactionId, traceId, spanId } = dictionary.context(context!);
  return fieldsOf({
    service_name: dictionary.name(service!),
    transaction_id: transactionId,
    trace_id: traceId,
    span_id: spanId,
    attribution: { source: ATTRIBUTION_SOURCES[source!], quality: ATTRIBUTION_QUALITIES[quality!] },
    node: dictionary.recording(recording!).node,
  });
}

function errorText(_: Dictionary, [low, high]: readonly number[]): string {
  return fieldsOf({ error: errorName(BigInt.asIntN(64, (BigInt(high!) << 32n) | BigInt(low!))) });
}

function fileText(name: string, dictionary: Dictionary, id: number): string {
  const file = dictionary.file(id);
  return fieldsOf({ [name]: file?.path ?? null, file_kind: file?.kind ?? 'unknown' });
}
