/** Writes a recording's events as CSV without making events; the layout of a line follows from bpf/schema. */
import { commonFields } from '../../../bpf/schema/common.ts';
import { apiName, type Fields } from '../../../bpf/schema/define.ts';
import { EVENTS, eventById } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import type { RowPart } from '../../../bpf/schema/native_text_rows.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { errorName } from '../../store/blocks/errno.ts';
import {
  type LayoutBuilder,
  layoutBuilder,
  NUMBER_COLUMN,
  originColumns,
  originText,
  type RowLayout,
  rowFormat,
  textRows,
  toSignedBigInt,
} from '../../store/blocks/event_json.ts';
import { type Dictionary, RECORDING_COLUMN } from '../../store/blocks/scanned_block.ts';
import type { Encoder } from '../encoder.ts';
import { EVENT_COLUMNS } from '../flat_columns.ts';
import { csvCell, csvHead, END_OF_LINE } from './csv_lines.ts';

const format = rowFormat(layoutOfLines);

export function csvEncoder(): Encoder {
  const { pieces, rest } = textRows(format, END_OF_LINE);
  return {
    head: csvHead,
    *pieces(scanned) {
      // The memory of a piece is used again, and an output may still have to write it.
      for (const piece of pieces(scanned)) yield Buffer.from(piece);
    },
    tail: rest,
  };
}

const EMPTY = ',';

/** Parts of a line by the name of their column. */
type Cells = ReadonlyMap<string, readonly RowPart[]>;

function layoutOfLines(): RowLayout {
  const build = layoutBuilder();
  const common = commonCells(build);
  const ownColumns = EVENT_COLUMNS.filter(({ name }) => !common.has(name));
  const own: (readonly RowPart[] | undefined)[] = [];
  for (const { id, name: type, fields } of EVENTS) {
    const cells: Cells = new Map(buildCells(build, fields, (name) => `${type}.${name}`));
    own[id] = ownColumns.flatMap(({ name }) => cells.get(name) ?? [build.literal(EMPTY)]);
  }
  return build.layout({ common: [...common.values()].flat(), own: Array.from(own) });
}

function commonCells(build: LayoutBuilder): Cells {
  const { text, hex, negativeText } = build;
  const id = [text([RECORDING_COLUMN], ({ recording }, [at]) => `${recording(at!).recordingId}-`), hex(NUMBER_COLUMN)];
  return new Map([
    ['event_id', id],
    ['event_type', [text(['event_type'], (_, [type]) => next(eventById(type!)!.name))]],
    ...buildCells(build, commonFields, (name) => name),
    ['error', [negativeText('result', (_, words) => next(errorName(toSignedBigInt(words))))]],
    ['node', [text([RECORDING_COLUMN], ({ recording }, [at]) => next(recording(at!).node))]],
  ]);
}

/** A cell that follows another one. */
const next = (value: string | null): string => `,${csvCell(value)}`;

type NamedParts = [name: string, parts: readonly RowPart[]];

/** `nameColumn` returns the name of the column that has a field's values. */
function buildCells(build: LayoutBuilder, fields: Fields, nameColumn: (name: string) => string): NamedParts[] {
  return Object.entries(fields).flatMap(([fieldName, field]) => {
    const name = apiName(fieldName, field);
    return cellsOfKind(build, name, field.kind, nameColumn(name));
  });
}

function cellsOfKind(build: LayoutBuilder, name: string, kind: Kind, column: string): NamedParts[] {
  const { number, text, list } = build;
  const cell = (cellName: string, from: string, make: (dictionary: Dictionary, value: number) => string | null) =>
    [cellName, [text([from], (dictionary, [value]) => next(make(dictionary, value!)))]] satisfies NamedParts;
  const { source, labels, unknown } = kind;
  switch (source) {
    case 'value':
    case 'boot_time':
      if (kind.columns.length === 0) return [];
      if (labels) return [cell(name, column, (_, value) => labels.get(value) ?? null)];
      return [[name, [number(column, { before: EMPTY, none: EMPTY }, unknown)]]];
    case 'text':
      return [cell(name, column, (dictionary, id) => dictionary.name(id))];
    case 'process':
      return [cell('service_name', 'service', (dictionary, id) => dictionary.name(id))];
    case 'context':
      return [
        cell('transaction_id', 'context', (dictionary, id) => dictionary.context(id).transactionId),
        cell('trace_id', 'context', (dictionary, id) => dictionary.context(id).traceId),
        cell('span_id', 'context', (dictionary, id) => dictionary.context(id).spanId),
        cell('attribution_source', 'context_source', (_, id) => ATTRIBUTION_SOURCES[id]!),
        cell('attribution_quality', 'context_quality', (_, id) => ATTRIBUTION_QUALITIES[id]!),
      ];
    case 'file':
      return [
        cell(name, column, (dictionary, id) => dictionary.file(id)?.path ?? null),
        cell('file_kind', column, (dictionary, id) => dictionary.file(id)?.kind ?? 'unknown'),
      ];
    case 'queuer':
      return [
        cell(`${name}_service_name`, `${column}_service`, (dictionary, id) => dictionary.name(id) || null),
        cell(
          `${name}_transaction_id`,
          `${column}_context`,
          (dictionary, id) => dictionary.context(id).transactionId || null,
        ),
      ];
    case 'origins': {
      // A list of objects has quotes, an empty one has none.
      const surrounding = { before: ',"[', after: ']"', none: ',[]' };
      const quoted = (...args: Parameters<typeof originText>) => originText(...args).replaceAll('"', '""');
      return [[name, [list(originColumns(column, ORIGINS_MAX), surrounding, quoted)]]];
    }
  }
}
