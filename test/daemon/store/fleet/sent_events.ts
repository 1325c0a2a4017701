/** Sends events of recordings as rows, with the least that a scan needs beside them. */
import type { Connection } from '../../../../agent/clickhouse/connection/connection.ts';
import { newBlockEncoder } from '../../../../agent/clickhouse/native/encode.ts';
import { nameOf } from '../../../../agent/clickhouse/native/types.ts';
import { EVENT_COLUMNS, type EventColumn } from '../../../../agent/clickhouse/tables/event_columns.ts';
import { BUCKET_NS_DEFAULT, tablesOf } from '../../../../agent/clickhouse/tables/schema.ts';
import { typeRows } from '../../../../bpf/schema/block.ts';
import { eventById } from '../../../../bpf/schema/index.ts';
import { ORIGINS_MAX } from '../../../../bpf/schema/kinds.ts';
import type { RecordingBlock } from '../../../../daemon/store/blocks/scanned_block.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { columnOf, type Value } from '../../../clickhouse/columns.ts';

type SentRow = Record<string, Value>;

const DAY_NS = 86_400_000_000_000n;

export async function sendEvents(connection: Connection, recordings: Recordings): Promise<void> {
  const events: SentRow[] = [];
  const [byId, segments] = [new Map<string, SentRow>(), new Map<string, SentRow>()];
  for (const scanned of recordings.scan({ filter: {}, order: 'asc' })) {
    for (const row of rowsOf(scanned)) {
      events.push(row);
      extend(segments, `${row.recording}`, row, {});
      const ids = [row.transaction_id, ...(row.origin_transactions as string[])].map((id) => ({ kind: 1n, id: id! }));
      const traces = [row.trace_id, ...(row.origin_traces as string[])].map((id) => ({ kind: 2n, id: id! }));
      for (const one of [...ids, ...traces].filter(({ id }) => !/^0*$/.test(id as string)))
        extend(byId, `${one.kind} ${one.id} ${row.recording}`, row, {
          ...one,
          day: (row.timestamp_ns as bigint) / DAY_NS,
        });
    }
  }
  await sendRows(connection, 'event', events);
  await sendRows(connection, 'by_id', [...byId.values()]);
  await sendRows(connection, 'segment', [...segments.values()]);
}

/** Makes the sums of a row's recording include it. */
function extend(sums: Map<string, SentRow>, key: string, row: SentRow, more: SentRow): void {
  const { recording, node, timestamp_ns: at, owner } = row;
  const sum = sums.get(key) ?? { recording: recording!, node: node!, owners: [], t_min: at!, t_max: at!, ...more };
  const owners = [...new Set([...(sum.owners as string[]), owner as string])];
  const t_min = at! < sum.t_min! ? at! : sum.t_min!;
  const t_max = at! > sum.t_max! ? at! : sum.t_max!;
  sums.set(key, { ...sum, owners, t_min, t_max, end_number: 2n ** 63n });
}

function rowsOf(scanned: RecordingBlock): SentRow[] {
  const { block, dictionary } = scanned;
  const places = typeRows(block);
  return Array.from({ length: block.rowCount }, (_, row) => {
    const own = Object.fromEntries(
      EVENT_COLUMNS.map((column) => [column.name, cellOf(scanned, column, row, places[row]!)]),
    );
    const owners = new Set([own.service, ...(own.origin_services as string[])].filter((service) => service !== ''));
    const [owner = ''] = owners.size > 1 ? ['*'] : owners;
    const recording = BigInt(`0x${dictionary.recordingId}`);
    return { ...own, owner, recording, number: block.numbers[row]!, node: dictionary.node } as SentRow;
  });
}

function cellOf(
  { block, dictionary }: RecordingBlock,
  { name, part, source }: EventColumn,
  row: number,
  own: number,
): Value {
  const type = eventById(block.columns.get('event_type')![row] as number)!;
  const isOf = source.eventType === 0 || source.eventType === type.id;
  const number = isOf ? block.columns.get(source.name)![source.eventType === 0 ? row : own]! : 0;
  const id = Number(number);
  const hex = (text: string | null, bytes: number) => text ?? '00'.repeat(bytes);
  const slots = isOf && part.startsWith('origin_') ? Array.from({ length: ORIGINS_MAX }, (_, slot) => slot) : [];
  const at = (slot: number, what: string) => block.columns.get(`${type.name}.origins_${slot}_${what}`)![own]!;
  const used = slots.filter((slot) => at(slot, 'service') || at(slot, 'context') || at(slot, 'bytes'));
  const contextAt = (slot: number) => dictionary.context(Number(at(slot, 'context')));
  switch (part) {
    case 'number':
      return BigInt(number);
    case 'event_type':
      return type.name;
    case 'label': {
      const fields: Record<string, { kind: { labels?: ReadonlyMap<number, string> } }> = { ...type.fields } as never;
      return isOf ? (fields[source.field]!.kind.labels!.get(id) ?? '') : '';
    }
    case 'text':
    case 'service':
      return dictionary.name(id);
    case 'path':
      return dictionary.file(id)?.path ?? '';
    case 'file_kind':
      return name && (dictionary.file(id)?.kind ?? '');
    case 'transaction':
      return dictionary.context(id).transactionId ?? '';
    case 'trace':
      return hex(dictionary.context(id).traceId, 16);
    case 'span':
      return hex(dictionary.context(id).spanId, 8);
    case 'origin_services':
      return used.map((slot) => dictionary.name(Number(at(slot, 'service'))));
    case 'origin_transactions':
      return used.map((slot) => contextAt(slot).transactionId ?? '');
    case 'origin_traces':
      return used.map((slot) => hex(contextAt(slot).traceId, 16));
    case 'origin_bytes':
      return used.map((slot) => BigInt(at(slot, 'bytes')));
  }
}

const EMPTY: Record<string, Value> = { integer: 0n, text: '', dictionary: '', list: [] };

/** What rows leave out is empty. */
export async function sendRows(connection: Connection, table: string, rows: readonly SentRow[]): Promise<void> {
  const own = tablesOf(BUCKET_NS_DEFAULT)
    .find(({ name }) => name === table)!
    .columns.filter(({ computed }) => !computed);
  const columns = own.map(({ name, type }) => {
    const empty = type.kind === 'fixed_text' ? '00'.repeat(type.bytes) : EMPTY[type.kind]!;
    return columnOf(
      name,
      nameOf(type),
      rows.map((row) => row[name] ?? empty),
    );
  });
  const block = newBlockEncoder().encode(columns, rows.length);
  await connection.insert({ table, columns: columns.map(({ name }) => name) }, () => [block]);
}
