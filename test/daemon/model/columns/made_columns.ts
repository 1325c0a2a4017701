/** Writes events as the lines of a columns answer, and reads them back: made events for tests of the page. */
import { createColumnsBuilder } from '../../../../daemon/model/columns/builder.ts';
import type { EventColumns } from '../../../../daemon/model/columns/event_columns.ts';

export interface MadeEvent {
  start: number | bigint;
  duration: number | bigint;
  type: 'sys_write' | 'block_io' | 'sys_sync';
  recordingId: string;
  node: string;
  pid: number;
  tid: number;
  comm: string;
  service: string;
  operation: string;
  target: string | null;
  transaction: string | null;
  source: string;
  quality: string;
  queuedBy: string | null;
  result: number | bigint;
  bytes: number | bigint | null;
  queue: number | bigint | null;
  number: number | bigint;
  origins: (readonly [service: string, transaction: string | null, bytes: number])[];
}

export const BASE_NS = 1_764_000_000_123_456_789n;
export const TYPES = { '1': 'sys_write', '2': 'block_io', '3': 'sys_sync' };
const TYPE_IDS = { sys_write: 1, block_io: 2, sys_sync: 3 };

let madeCount = 0;

export function made(event: Partial<MadeEvent> = {}): MadeEvent {
  const type = event.type ?? 'sys_write';
  const ofRequest = type === 'block_io';
  return {
    ...{ start: 0, duration: 10, type, recordingId: '00000000000000aa', node: 'n1', pid: 7, tid: 8, comm: 'worker' },
    ...{ service: 'shop', operation: ofRequest ? 'write' : type === 'sys_sync' ? 'fsync' : 'write' },
    ...{ target: ofRequest ? 'nvme0n1' : '/srv/wal', transaction: 'order-1', source: 'marker', quality: 'exact' },
    ...{ result: 0, bytes: null, queue: ofRequest ? 4 : null, number: madeCount++, queuedBy: null, origins: [] },
    ...event,
  };
}

const wire = (value: number | bigint | null) =>
  value !== null && !Number.isSafeInteger(Number(value)) ? String(value) : value === null ? null : Number(value);

/** Lines of at most `size` events each, with the coverage as the last one. Events must be in order of start. */
export function linesOf(events: readonly MadeEvent[], size = 4096): string[] {
  const known = new Map<string, Map<string, number>>();
  const lines: string[] = [];
  for (let from = 0; from < events.length; from += size) {
    const some = events.slice(from, from + size);
    const line: Record<string, unknown> = {};
    const indexOf = (name: string, entry: readonly unknown[]): number => {
      if (!known.has(name)) known.set(name, new Map());
      const [entries, key] = [known.get(name)!, JSON.stringify(entry)];
      if (!entries.has(key)) {
        entries.set(key, entries.size);
        line[name] = [...((line[name] as unknown[]) ?? []), entry];
      }
      return entries.get(key)!;
    };
    const baseNs = BASE_NS + BigInt(some[0]!.start);
    if (from === 0) line.types = TYPES;
    Object.assign(line, {
      base_ns: String(baseNs),
      errors: { '-28': 'ENOSPC' },
      start: some.map(({ start }) => wire(BASE_NS + BigInt(start) - baseNs)),
      type: some.map(({ type }) => TYPE_IDS[type]),
      thread: some.map((one) =>
        indexOf('threads', [
          indexOf('recordings', [one.recordingId, one.node]),
          ...[one.pid, one.tid, one.comm, one.service],
        ]),
      ),
      what: some.map(({ operation, target }) => indexOf('whats', [operation, target, null])),
      owner: some.map((one) => indexOf('owners', [one.transaction, one.source, one.quality, one.queuedBy])),
      origins: some.flatMap(({ origins }, row) => origins.map((origin) => [row, ...origin])),
    });
    for (const field of ['duration', 'result', 'bytes', 'queue', 'number'] as const)
      line[field] = some.map((event) => wire(event[field]));
    lines.push(JSON.stringify(line));
  }
  return [...lines, '{"coverage":{"complete":true,"lost":0,"gaps":[],"recorded_until":1764000000123456789}}'];
}

/** The events as columns, in order of start. */
export function columnsOf(events: readonly Partial<MadeEvent>[]): EventColumns {
  const builder = createColumnsBuilder();
  const inOrder = events.map(made).sort((a, b) => Number(BigInt(a.start) - BigInt(b.start)));
  for (const line of linesOf(inOrder, 50)) builder.add(line);
  return builder.finish();
}
