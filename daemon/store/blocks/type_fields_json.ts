/** Writers of the fields that only one event type has, derived from its definition. */

import { wordsOf } from '../../../agent/recording/words64.ts';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import { apiName } from '../../../bpf/schema/define.ts';
import type { EventDefinition } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import type { ByteText } from './byte_text.ts';
import { bigColumn, column } from './column.ts';
import { createFragments, fieldsOf } from './fragments.ts';
import type { Dictionary } from './scanned_block.ts';

/** Writes the value at an index of the type's own columns. */
type FieldWriter = (index: number) => void;

/** Returns the writer of a block's fields. */
export type TypeFieldsJson = (block: NumberedBlock) => FieldWriter;

export function typeFieldsJson(event: EventDefinition, dictionary: Dictionary, text: ByteText): TypeFieldsJson {
  const fields = Object.entries(event.fields)
    .filter(([name, { kind }]) => !(name in commonFields) && kind.columns.length > 0)
    .map(([fieldName, field]) => {
      const name = apiName(fieldName, field);
      return fieldJson(name, field.kind, `${event.name}.${name}`, dictionary, text);
    });
  return (block) => {
    const writers = fields.map((field) => field(block));
    return (index) => {
      for (let i = 0; i < writers.length; i++) writers[i]!(index);
    };
  };
}

function fieldJson(
  name: string,
  kind: Kind,
  columnName: string,
  dictionary: Dictionary,
  text: ByteText,
): TypeFieldsJson {
  switch (kind.source) {
    case 'text':
      return pieceJson(columnName, text, (id) => ({ [name]: dictionary.name(id) }));
    case 'file':
      return pieceJson(columnName, text, (id) => {
        const file = dictionary.file(id);
        return { [name]: file?.path ?? null, file_kind: file?.kind ?? 'unknown' };
      });
    case 'origins':
      return originsJson(name, columnName, dictionary, text);
    default:
      if (kind.labels) return pieceJson(columnName, text, (value) => ({ [name]: kind.labels!.get(value) }));
      return valueJson(name, kind, columnName, text);
  }
}

/** Writes a field that has few distinct values. */
function pieceJson(columnName: string, text: ByteText, fields: (value: number) => object): TypeFieldsJson {
  const pieces = createFragments((value) => fieldsOf(fields(value)));
  return (block) => {
    const values = column(block, columnName);
    return (index) => text.add(pieces(values[index]!));
  };
}

function valueJson(name: string, kind: Kind, columnName: string, text: ByteText): TypeFieldsJson {
  const head = Buffer.from(`,${JSON.stringify(name)}:`);
  const { storage } = kind.columns[0]!;
  if (storage !== 'u64' && storage !== 'i64') {
    return (block) => {
      const values = column(block, columnName);
      return (index) => {
        const value = values[index]!;
        text.add(head);
        text.signed(value >>> 0, value < 0 ? 0xffffffff : 0);
      };
    };
  }
  const missing = Buffer.from(`,${JSON.stringify(name)}:null`);
  const write = storage === 'u64' ? text.unsigned : text.signed;
  const [unknownLow, unknownHigh] = kind.unknown === undefined ? [-1, -1] : halves(kind.unknown);
  return (block) => {
    const values = wordsOf(bigColumn(block, columnName));
    return (index) => {
      const [low, high] = [values[index * 2]!, values[index * 2 + 1]!];
      const isUnknown = low === unknownLow && high === unknownHigh;
      text.add(isUnknown ? missing : head);
      if (!isUnknown) write(low, high);
    };
  };
}

function halves(value: bigint): [low: number, high: number] {
  return [Number(value & 0xffffffffn), Number(value >> 32n)];
}

function originsJson(name: string, columnName: string, dictionary: Dictionary, text: ByteText): TypeFieldsJson {
  const head = Buffer.from(`,${JSON.stringify(name)}:[`);
  const [comma, end, endOfAll] = [',', '}', ']'].map((part) => Buffer.from(part)) as [Buffer, Buffer, Buffer];
  const owners = createFragments((service, context) => {
    const { transactionId } = dictionary.context(context);
    const fields = fieldsOf({ service_name: dictionary.name(service), transaction_id: transactionId });
    return `{${fields.slice(1)},"bytes":`;
  });
  return (block) => {
    const slots = Array.from({ length: ORIGINS_MAX }, (_, slot) => ({
      services: column(block, `${columnName}_${slot}_service`),
      contexts: column(block, `${columnName}_${slot}_context`),
      bytes: wordsOf(bigColumn(block, `${columnName}_${slot}_bytes`)),
    }));
    return (index) => {
      text.add(head);
      let isFirst = true;
      for (const { services, contexts, bytes } of slots) {
        const [service, context, low, high] = [
          services[index]!,
          contexts[index]!,
          bytes[index * 2]!,
          bytes[index * 2 + 1]!,
        ];
        if (service === 0 && context === 0 && low === 0 && high === 0) continue;
        if (!isFirst) text.add(comma);
        isFirst = false;
        text.add(owners(service, context));
        text.unsigned(low, high);
        text.add(end);
      }
      text.add(endOfAll);
    };
  };
}
