/** Readers for the fields that only one event type has, derived from its definition. */

import { queuerOf } from '../../../agent/recording/format/queuer.ts';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import { apiName } from '../../../bpf/schema/define.ts';
import type { EventDefinition } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import { bigColumn, column } from './column.ts';
import type { Dictionary } from './scanned_block.ts';

/** Returns the value at an index of the type's own columns. */
export type FieldReader = (index: number) => unknown;

export function ownFields(
  event: EventDefinition,
  block: NumberedBlock,
  dictionary: Dictionary,
): [string, FieldReader][] {
  return Object.entries(event.fields)
    .filter(([name, { kind }]) => !(name in commonFields) && kind.columns.length > 0)
    .flatMap(([fieldName, field]) => {
      const name = apiName(fieldName, field);
      return reading(name, field.kind, `${event.name}.${name}`, block, dictionary);
    });
}

function reading(
  name: string,
  kind: Kind,
  columnName: string,
  block: NumberedBlock,
  dictionary: Dictionary,
): [string, FieldReader][] {
  switch (kind.source) {
    case 'text': {
      const ids = column(block, columnName);
      return [[name, (index) => dictionary.name(ids[index]!)]];
    }
    case 'file': {
      const ids = column(block, columnName);
      return [
        [name, (index) => dictionary.file(ids[index]!)?.path ?? null],
        ['file_kind', (index) => dictionary.file(ids[index]!)?.kind ?? 'unknown'],
      ];
    }
    case 'queuer': {
      const [services, contexts] = [column(block, `${columnName}_service`), column(block, `${columnName}_context`)];
      return [[name, (index) => queuerOf(dictionary, services[index]!, contexts[index]!)]];
    }
    case 'origins':
      return [[name, originsReader(columnName, block, dictionary)]];
    default:
      return [[name, valueReader(kind, columnName, block)]];
  }
}

function valueReader(kind: Kind, columnName: string, block: NumberedBlock): FieldReader {
  const { labels, unknown } = kind;
  if (labels) {
    const values = column(block, columnName);
    return (index) => labels.get(values[index]!);
  }
  const values = block.columns.get(columnName)!;
  if (unknown === undefined) return (index) => values[index];
  return (index) => (values[index] === unknown ? null : values[index]);
}

function originsReader(columnName: string, block: NumberedBlock, dictionary: Dictionary): FieldReader {
  const slots = Array.from({ length: ORIGINS_MAX }, (_, slot) => ({
    services: column(block, `${columnName}_${slot}_service`),
    contexts: column(block, `${columnName}_${slot}_context`),
    bytes: bigColumn(block, `${columnName}_${slot}_bytes`),
  }));
  return (index) =>
    slots
      .filter(({ services, contexts, bytes }) => services[index] || contexts[index] || bytes[index])
      .map(({ services, contexts, bytes }) => ({
        service_name: dictionary.name(services[index]!),
        transaction_id: dictionary.context(contexts[index]!).transactionId,
        bytes: bytes[index]!,
      }));
}
