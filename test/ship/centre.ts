/** Reads what arrived at a server, over HTTP and as JSON: no code of the shipper or of its connection. */
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../bpf/schema/owner.ts';
import type { ClickHouseServer } from '../clickhouse/server.ts';
import { type PlainEvent, textOf } from './plain_events.ts';

type Value = string | number | (string | number)[];
export type CentreRow = Record<string, Value>;

/** The server writes 64-bit numbers as texts. */
export async function rowsAt(server: ClickHouseServer, statement: string): Promise<CentreRow[]> {
  const text = (await server.sql(`${statement} FORMAT JSONEachRow`)).toString();
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as CentreRow);
}

export async function countAt(server: ClickHouseServer, statement: string): Promise<number> {
  return Number((await server.sql(statement)).toString());
}

const OWN = {
  sys_write: [
    'sys_write_file',
    'sys_write_file_kind',
    'sys_write_bytes_requested',
    'sys_write_fd',
    'sys_write_syscall',
  ],
  sys_sync: ['sys_sync_file', 'sys_sync_file_kind', 'sys_sync_fd', 'sys_sync_syscall'],
  block_io: ['block_io_sector', 'block_io_bytes', 'block_io_queue_ns', 'block_io_operation', 'block_io_device'],
} as const;

/** Columns that are texts or small numbers. */
const PLAIN = /_(file|file_kind|fd|syscall|operation|device)$/;
const EVENTS = `
SELECT number, event_type, node, timestamp_ns, duration_ns, result, pid, tid, cpu, service, comm,
  context_source, context_quality, transaction_id, hex(trace_id) AS trace, hex(span_id) AS span, owner,
  ${Object.values(OWN).flat().join(', ')},
  origin_services, origin_transactions, arrayMap(x -> hex(x), origin_traces) AS origin_traces, origin_bytes`;

export interface Arrived {
  /** Each event as a text, by its number. */
  events: Map<number, string>;
  plain: PlainEvent[];
  owners: Map<number, string>;
  /** Rows, of which several may be the same event. */
  rowCount: number;
}

/** Throws when an event is there twice with different values. */
export async function arrivedAt(server: ClickHouseServer, table = 'kreplay.event'): Promise<Arrived> {
  const rows = await rowsAt(server, `${EVENTS} FROM ${table} ORDER BY number`);
  const events = new Map<number, string>();
  const owners = new Map<number, string>();
  const plain: PlainEvent[] = [];
  for (const row of rows) {
    const event = eventOf(row);
    const text = textOf(event);
    const known = events.get(event.number);
    if (known !== undefined && known !== text) throw new Error(`an event is there twice: ${known} ${text}`);
    if (known === undefined) plain.push(event);
    events.set(event.number, text);
    owners.set(event.number, String(row.owner));
  }
  return { events, plain, owners, rowCount: rows.length };
}

const hex = (value: Value | undefined) => (/^0*$/.test(String(value)) ? '' : String(value).toLowerCase());

export function eventOf(row: CentreRow): PlainEvent {
  const type = String(row.event_type);
  const own = OWN[type as keyof typeof OWN].map((name) => {
    const value = row[name] as string | number;
    return PLAIN.test(name) ? value : BigInt(value);
  });
  const list = (name: string) => row[name] as string[];
  return {
    number: Number(row.number),
    type,
    node: String(row.node),
    at: BigInt(row.timestamp_ns as string),
    duration: BigInt(row.duration_ns as string),
    result: BigInt(row.result as string),
    pid: Number(row.pid),
    tid: Number(row.tid),
    cpu: Number(row.cpu),
    service: String(row.service),
    comm: String(row.comm),
    source: ATTRIBUTION_SOURCES[Number(row.context_source)]!,
    quality: ATTRIBUTION_QUALITIES[Number(row.context_quality)]!,
    transaction: String(row.transaction_id),
    trace: hex(row.trace),
    span: hex(row.span),
    own,
    origins: list('origin_services').map((service, i) => ({
      service,
      transaction: list('origin_transactions')[i]!,
      trace: hex(list('origin_traces')[i]),
      bytes: BigInt(list('origin_bytes')[i]!),
    })),
  };
}

/** How many events the centre says are missing, by cause. */
export async function lossesAt(server: ClickHouseServer): Promise<Record<string, number>> {
  const latest = 'SELECT DISTINCT recording, loss_id, cause, count FROM kreplay.loss WHERE count > 0';
  const rows = await rowsAt(server, `SELECT cause, sum(count) AS n FROM (${latest}) GROUP BY cause`);
  return Object.fromEntries(rows.map(({ cause, n }) => [String(cause), Number(n)]));
}
