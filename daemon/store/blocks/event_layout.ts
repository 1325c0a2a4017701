/** The layout of an event as JSON, derived from the definitions in bpf/schema. */
import { queuerOf } from '../../../agent/recording/format/queuer.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import { apiName } from '../../../bpf/schema/define.ts';
import { EVENTS, type EventDefinition, eventById } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import type { RowPart } from '../../../bpf/schema/native_text_rows.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { stringify } from '../../base/exact_json.ts';
import { errorName } from './errno.ts';
import { type LayoutBuilder, layoutBuilder, NUMBER_COLUMN, originColumns, type RowLayout } from './row_layout.ts';
import { type Dictionary, RECORDING_COLUMN } from './scanned_block.ts';

/** Returns the fields of an object as text to insert into another object. */
function fieldsOf(values: object): string {
  const inner = stringify(values).slice(1, -1);
  return inner === '' ? '' : `,${inner}`;
}

const head = (name: string) => `,${JSON.stringify(name)}:`;

export function layoutOfEvents(): RowLayout {
  const build = layoutBuilder();
  const common = commonParts(build);
  const own: (RowPart[] | undefined)[] = [];
  for (const event of EVENTS) own[event.id] = ownParts(build, event);
  return build.layout({ common, own: Array.from(own) });
}

function commonParts({ text, number, hex, negativeText }: LayoutBuilder): RowPart[] {
  return [
    text([RECORDING_COLUMN], ({ recording }, [index]) => `{"event_id":"${recording(index!).recordingId}-`),
    hex(NUMBER_COLUMN),
    text(['event_type'], (_, [type]) => `","event_type":${stringify(eventById(type!)!.name)}`),
    number('timestamp_ns', { before: head('timestamp_ns') }),
    number('duration_ns', { before: head('duration_ns') }),
    text(['service', 'context', 'context_source', 'context_quality', RECORDING_COLUMN], ownerText),
    number('pid', { before: head('pid') }),
    number('tid', { before: head('tid') }),
    text(['comm'], ({ name }, [id]) => fieldsOf({ comm: name(id!) })),
    number('cpu', { before: head('cpu') }),
    number('result', { before: head('result') }),
    negativeText('result', errorText),
  ];
}

function ownParts(build: LayoutBuilder, event: EventDefinition): RowPart[] {
  return Object.entries(event.fields)
    .filter(([name, { kind }]) => !(name in commonFields) && kind.columns.length > 0)
    .map(([fieldName, field]) => {
      const name = apiName(fieldName, field);
      return fieldPart(build, name, field.kind, `${event.name}.${name}`);
    });
}

function fieldPart(build: LayoutBuilder, name: string, { source, labels, unknown }: Kind, column: string): RowPart {
  const { text, number } = build;
  if (source === 'text') return text([column], (dictionary, [id]) => fieldsOf({ [name]: dictionary.name(id!) }));
  if (source === 'file') return text([column], (dictionary, [id]) => fileText(name, dictionary, id!));
  if (source === 'queuer') return queuerPart(build, name, column);
  if (source === 'origins') return originsPart(build, name, column);
  if (labels) return text([column], (_, [value]) => fieldsOf({ [name]: labels.get(value!) }));
  return number(column, { before: head(name), none: `${head(name)}null` }, unknown);
}

function queuerPart({ text }: LayoutBuilder, name: string, column: string): RowPart {
  return text([`${column}_service`, `${column}_context`], (dictionary, [service, context]) =>
    fieldsOf({ [name]: queuerOf(dictionary, service!, context!) }),
  );
}

function originsPart({ list }: LayoutBuilder, name: string, column: string): RowPart {
  const surrounding = { before: `${head(name)}[`, after: ']', none: `${head(name)}[]` };
  return list(originColumns(column, ORIGINS_MAX), surrounding, originText);
}

/** The beginning of an origin, up to its bytes. */
export function originText(dictionary: Dictionary, [service, context]: readonly number[]): string {
  const { transactionId } = dictionary.context(context!);
  const fields = fieldsOf({ service_name: dictionary.name(service!), transaction_id: transactionId });
  return `{${fields.slice(1)},"bytes":`;
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

/** The number in a key, which is signed. */
export function signedOf([low, high]: readonly number[]): bigint {
  return BigInt.asIntN(64, (BigInt(high!) << 32n) | BigInt(low!));
}

function errorText(_: Dictionary, words: readonly number[]): string {
  return fieldsOf({ error: errorName(signedOf(words)) });
}

function fileText(name: string, dictionary: Dictionary, id: number): string {
  const file = dictionary.file(id);
  return fieldsOf({ [name]: file?.path ?? null, file_kind: file?.kind ?? 'unknown' });
}
