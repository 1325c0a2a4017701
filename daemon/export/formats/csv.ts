/** Writes a recording's events as CSV without event objects. The layout of a line is derived from bpf/schema. */
import { commonFields } from '../../../bpf/schema/common.ts';
import { type Fields, getApiName } from '../../../bpf/schema/define.ts';
import { EVENTS, findEventDefinition } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import type { RowPart } from '../../../bpf/schema/native_text_rows.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { nameError } from '../../store/blocks/errno.ts';
import {
  createLayoutBuilder,
  createRowFormat,
  createTextRows,
  encodeOriginHead,
  type LayoutBuilder,
  listOriginColumns,
  NUMBER_COLUMN,
  type RowLayout,
  toSignedBigInt,
} from '../../store/blocks/event_json.ts';
import { type Dictionary, RECORDING_COLUMN } from '../../store/blocks/scanned_block.ts';
import type { Encoder } from '../encoder.ts';
import { CSV_COLUMNS, END_OF_LINE, formatCsvCell, formatCsvHead } from './csv_lines.ts';

const format = createRowFormat(buildLineLayout);

export function createCsvEncoder(): Encoder {
  const { encodeChunks, takeRest } = createTextRows(format, END_OF_LINE);
  return {
    head: formatCsvHead,
    *encodeChunks(scanned) {
      // Copies the chunk, because the encoder reuses its memory while the output may still be writing it.
      for (const chunk of encodeChunks(scanned)) yield Buffer.from(chunk);
    },
    tail: takeRest,
  };
}

const EMPTY = ',';

/** Maps the name of a column to the row parts that format it. */
type Cells = ReadonlyMap<string, readonly RowPart[]>;

function buildLineLayout(): RowLayout {
  const build = createLayoutBuilder();
  const common = buildCommonCells(build);
  const ownColumns = CSV_COLUMNS.filter(({ name }) => !common.has(name));
  const own: (readonly RowPart[] | undefined)[] = [];
  for (const { id, name: type, fields } of EVENTS) {
    const cells: Cells = new Map(buildCells(build, fields, (name) => `${type}.${name}`));
    own[id] = ownColumns.flatMap(({ name }) => cells.get(name) ?? [build.literal(EMPTY)]);
  }
  return build.layout({ common: [...common.values()].flat(), own: Array.from(own) });
}

function buildCommonCells(build: LayoutBuilder): Cells {
  const { text, hex, negativeText } = build;
  const id = [text([RECORDING_COLUMN], ({ recording }, [at]) => `${recording(at!).recordingId}-`), hex(NUMBER_COLUMN)];
  return new Map([
    ['event_id', id],
    ['event_type', [text(['event_type'], (_, [type]) => formatNextCell(findEventDefinition(type!)!.name))]],
    ...addTimestamp(
      build,
      buildCells(build, commonFields, (name) => name),
    ),
    ['error', [negativeText('result', (_, words) => formatNextCell(nameError(toSignedBigInt(words))))]],
    ['node', [text([RECORDING_COLUMN], ({ recording }, [at]) => formatNextCell(recording(at!).node))]],
  ]);
}

/** Formats a cell that is not the first of its line. */
const formatNextCell = (value: string | null): string => `,${formatCsvCell(value)}`;

type NamedParts = [name: string, parts: readonly RowPart[]];

/** Adds the text column `timestamp` after the column `timestamp_ns`. */
function addTimestamp({ time }: LayoutBuilder, cells: readonly NamedParts[]): NamedParts[] {
  const timestamp: NamedParts = ['timestamp', [time('timestamp_ns', { before: EMPTY })]];
  return cells.flatMap((cell) => (cell[0] === 'timestamp_ns' ? [cell, timestamp] : [cell]));
}

/** Builds the cells of all fields. `nameColumn` returns the name of the column that contains a field's values. */
function buildCells(build: LayoutBuilder, fields: Fields, nameColumn: (name: string) => string): NamedParts[] {
  return Object.entries(fields).flatMap(([fieldName, field]) => {
    const name = getApiName(fieldName, field);
    return buildKindCells(build, name, field.kind, nameColumn(name));
  });
}

function buildKindCells(build: LayoutBuilder, name: string, kind: Kind, column: string): NamedParts[] {
  const { number, text, list } = build;
  const buildCell = (cellName: string, from: string, make: (dictionary: Dictionary, value: number) => string | null) =>
    [cellName, [text([from], (dictionary, [value]) => formatNextCell(make(dictionary, value!)))]] satisfies NamedParts;
  const { source, labels, unknown } = kind;
  switch (source) {
    case 'value':
    case 'boot_time':
      if (kind.columns.length === 0) return [];
      if (labels) return [buildCell(name, column, (_, value) => labels.get(value) ?? null)];
      return [[name, [number(column, { before: EMPTY, none: EMPTY }, unknown)]]];
    case 'text':
      return [buildCell(name, column, (dictionary, id) => dictionary.name(id))];
    case 'process':
      return [buildCell('service_name', 'service', (dictionary, id) => dictionary.name(id))];
    case 'context':
      return [
        buildCell('transaction_id', 'context', (dictionary, id) => dictionary.context(id).transactionId),
        buildCell('trace_id', 'context', (dictionary, id) => dictionary.context(id).traceId),
        buildCell('span_id', 'context', (dictionary, id) => dictionary.context(id).spanId),
        buildCell('attribution_source', 'context_source', (_, id) => ATTRIBUTION_SOURCES[id]!),
        buildCell('attribution_quality', 'context_quality', (_, id) => ATTRIBUTION_QUALITIES[id]!),
      ];
    case 'file':
      return [
        buildCell(name, column, (dictionary, id) => dictionary.file(id)?.path ?? null),
        buildCell('file_kind', column, (dictionary, id) => dictionary.file(id)?.kind ?? 'unknown'),
      ];
    case 'queuer':
      return [
        buildCell(`${name}_service_name`, `${column}_service`, (dictionary, id) => dictionary.name(id) || null),
        buildCell(
          `${name}_transaction_id`,
          `${column}_context`,
          (dictionary, id) => dictionary.context(id).transactionId || null,
        ),
      ];
    case 'origins': {
      // A cell with a list of objects is quoted; a cell with an empty list is not.
      const surrounding = { before: ',"[', after: ']"', none: ',[]' };
      const quoteOriginText = (...args: Parameters<typeof encodeOriginHead>) =>
        encodeOriginHead(...args).replaceAll('"', '""');
      return [[name, [list(listOriginColumns(column, ORIGINS_MAX), surrounding, quoteOriginText)]]];
    }
  }
}
