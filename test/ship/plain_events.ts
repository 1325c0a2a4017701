/** Events as texts that can be compared: those that a test records, and those that the centre has. */
import type { Row } from '../daemon/recorded.ts';
import { NODE } from '../daemon/recorded.ts';

export interface PlainOrigin {
  service: string;
  transaction: string;
  trace: string;
  bytes: bigint;
}

/** What must arrive of an event; no owner is '', and no number is 2^64-1. */
export interface PlainEvent {
  number: number;
  type: string;
  node: string;
  at: bigint;
  duration: bigint;
  result: bigint;
  pid: number;
  tid: number;
  cpu: number;
  service: string;
  comm: string;
  source: string;
  quality: string;
  transaction: string;
  trace: string;
  span: string;
  /** Values of its own type, in a fixed order. */
  own: (string | number | bigint)[];
  origins: PlainOrigin[];
}

export const UNKNOWN = 2n ** 64n - 1n;
const NO_FILE = ['', ''];

/** The rows of a test as events, numbered in the order in which they are recorded. */
export function eventsOf(rows: readonly Row[], first = 0): PlainEvent[] {
  return rows.map((row, i) => {
    const hasContext = row.transaction !== undefined || row.trace !== undefined;
    return {
      number: first + i,
      type: row.type ?? 'sys_write',
      node: NODE,
      at: row.at,
      duration: row.duration ?? 1000n,
      result: row.result ?? 64n,
      pid: row.pid ?? 100,
      tid: row.tid ?? 100,
      cpu: row.cpu ?? 0,
      service: row.service ?? 'shop',
      comm: row.comm ?? 'node',
      source: row.source ?? (hasContext ? 'marker' : 'none'),
      quality: row.quality ?? (hasContext ? 'exact' : 'none'),
      transaction: row.transaction ?? '',
      trace: row.trace ?? '',
      span: row.span ?? '',
      own: ownOf(row),
      origins: row.type === 'block_io' ? originsOf(row) : [],
    };
  });
}

function ownOf(row: Row): PlainEvent['own'] {
  if (row.type === 'block_io')
    return [row.sector ?? 0n, row.bytes ?? 4096n, row.queue ?? UNKNOWN, row.operation ?? 'write', row.device ?? 'sda'];
  const file = row.file === undefined ? NO_FILE : [row.file, row.fileKind ?? 'regular'];
  if (row.type === 'sys_sync') return [...file, row.fd ?? 5, row.syscall ?? 'fsync'];
  return [...file, row.requested ?? UNKNOWN, row.fd ?? 1, row.syscall ?? 'write'];
}

function originsOf({ origins = [] }: Row & { type: 'block_io' }): PlainOrigin[] {
  return origins.map(({ service = 'shop', transaction = '', trace = '', bytes }) => {
    return { service, transaction, trace, bytes };
  });
}

export function textOf(event: PlainEvent): string {
  const exact = (_: string, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value);
  return JSON.stringify(event, exact);
}

/** All services that own the event or a part of it. */
export function servicesOf({ service, origins }: PlainEvent): string[] {
  return [...new Set([service, ...origins.map((origin) => origin.service)])].filter((text) => text !== '');
}
