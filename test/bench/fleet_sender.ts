/**
 * Sends a recording's events to a table as other senders do: rows of JSON, or of RowBinary, gzipped, 10,000 at a time,
 * each batch until the server takes it. `node fleet_sender.ts FORMAT URL CA CERT KEY RECORDING`.
 */
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { openReader } from '../../agent/recording/read/reader.ts';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { readBlockEvents } from '../../daemon/store/blocks/event.ts';
import { createRecordingDictionary } from '../../daemon/store/blocks/scanned_block.ts';

export const FORMATS = ['JSONEachRow', 'RowBinary'] as const;
export type Format = (typeof FORMATS)[number];

/** Columns of the table that both formats fill, with where an event has them. */
export const ROW_COLUMNS = [
  ['timestamp_ns', 'UInt64'],
  ['duration_ns', 'UInt64'],
  ['result', 'Int64'],
  ['pid', 'UInt32'],
  ['tid', 'UInt32'],
  ['cpu', 'UInt16'],
  ['event_id', 'String'],
  ['event_type', 'LowCardinality(String)'],
  ['service_name', 'LowCardinality(String)'],
  ['comm', 'LowCardinality(String)'],
  ['node', 'LowCardinality(String)'],
  ['transaction_id', 'String'],
  ['trace_id', 'String'],
  ['span_id', 'String'],
  ['file', 'String'],
  ['syscall', 'LowCardinality(String)'],
  ['operation', 'LowCardinality(String)'],
  ['device', 'LowCardinality(String)'],
  ['bytes', 'UInt64'],
  ['bytes_requested', 'UInt64'],
  ['sector', 'UInt64'],
  ['queue_ns', 'UInt64'],
] as const;

const BATCH_ROWS = 10_000;
const RETRY_MS = 100;
const ROW_BYTES_MAX = 2048;

type Values = Readonly<Record<string, unknown>>;

function jsonOf(rows: readonly Values[]): Buffer {
  const lines = rows.map((row) => {
    const fields = ROW_COLUMNS.flatMap(([name]) => {
      const value = row[name];
      if (value === undefined || value === null) return [];
      return `"${name}":${typeof value === 'bigint' ? value : JSON.stringify(value)}`;
    });
    return `{${fields.join()}}\n`;
  });
  return Buffer.from(lines.join(''));
}

function binaryOf(rows: readonly Values[]): Buffer {
  const bytes = Buffer.allocUnsafe(rows.length * ROW_BYTES_MAX);
  let at = 0;
  for (const row of rows)
    for (const [name, type] of ROW_COLUMNS) at = putValue(bytes, at, type, row[name] ?? undefined);
  return bytes.subarray(0, at);
}

function putValue(bytes: Buffer, at: number, type: string, value: unknown): number {
  switch (type) {
    case 'UInt64':
      return bytes.writeBigUInt64LE(BigInt((value as bigint | undefined) ?? 0n), at);
    case 'Int64':
      return bytes.writeBigInt64LE(BigInt((value as bigint | undefined) ?? 0n), at);
    case 'UInt32':
      return bytes.writeUInt32LE(Number(value ?? 0), at);
    case 'UInt16':
      return bytes.writeUInt16LE(Number(value ?? 0), at);
    default: {
      const text = String(value ?? '');
      const length = Buffer.byteLength(text);
      // All are shorter than 128 bytes here.
      return bytes.writeUInt8(length, at) + bytes.write(text, at + 1);
    }
  }
}

function* batches(path: string): Generator<ApiEvent[]> {
  const reader = openReader(path);
  const { recordingId, node, name, file, context } = reader;
  const dictionary = createRecordingDictionary({ recordingId, node, name, file, context });
  let batch: ApiEvent[] = [];
  for (const block of reader.scan({ order: 'none' })) {
    for (const event of readBlockEvents({ block, dictionary })) {
      if (batch.push(event) < BATCH_ROWS) continue;
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
  reader.close();
}

async function main([format, url, ca, cert, key, path]: readonly string[]): Promise<void> {
  const agent = new Agent({
    keepAlive: true,
    ca: readFileSync(ca!),
    cert: readFileSync(cert!),
    key: readFileSync(key!),
  });
  const query = `INSERT INTO peer.rows FORMAT ${format}`;
  const address = `${url}/?query=${encodeURIComponent(query)}`;
  let wireBytes = 0;
  const post = (body: Buffer) =>
    new Promise<number>((resolve, reject) => {
      const headers = { 'content-encoding': 'gzip', 'content-length': body.length };
      const sent = request(address, { method: 'POST', agent, headers }, (answer) => {
        answer.resume();
        answer.on('end', () => resolve(answer.statusCode!));
        answer.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(body);
    });
  for (const batch of batches(path!)) {
    const rows = batch as unknown as Values[];
    const body = gzipSync(format === 'RowBinary' ? binaryOf(rows) : jsonOf(rows), { level: 1 });
    wireBytes += body.length;
    while ((await post(body).catch(() => 0)) !== 200) await sleep(RETRY_MS);
  }
  agent.destroy();
  process.stdout.write(`${JSON.stringify({ wireBytes })}\n`);
}

if (import.meta.main) await main(process.argv.slice(2));
