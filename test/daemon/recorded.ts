/** Makes real recordings for tests from rows that specify only what matters to the test. */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { NONE_UNLISTED } from '../../agent/recording/format/in_progress.ts';
import { openWriter, type RecordingWriter } from '../../agent/recording/write/writer.ts';
import { BLOCK_OPERATIONS } from '../../bpf/schema/block_io.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES, type FileKind } from '../../bpf/schema/owner.ts';
import { SYNC_SYSCALLS } from '../../bpf/schema/sys_sync.ts';
import { WRITE_SYSCALLS } from '../../bpf/schema/sys_write.ts';
import { formatTime } from '../../daemon/base/time_text.ts';
import { blockOf, type Row as ColumnRow, temporaryFolder } from '../agent/recording/fixture.ts';

export interface Owner {
  service?: string;
  transaction?: string;
  trace?: string;
  span?: string;
}

export interface CommonRow extends Owner {
  at: bigint;
  duration?: bigint;
  source?: (typeof ATTRIBUTION_SOURCES)[number];
  quality?: (typeof ATTRIBUTION_QUALITIES)[number];
  pid?: number;
  tid?: number;
  comm?: string;
  cpu?: number;
  result?: bigint;
}

export interface WriteRow extends CommonRow {
  type?: 'sys_write';
  file?: string;
  fileKind?: FileKind;
  requested?: bigint;
  fd?: number;
  syscall?: keyof typeof WRITE_SYSCALLS;
}

export interface BlockRow extends CommonRow {
  type: 'block_io';
  sector?: bigint;
  bytes?: bigint;
  queue?: bigint;
  operation?: keyof typeof BLOCK_OPERATIONS;
  device?: string;
  /** Not recorded if omitted. */
  queuedBy?: Owner;
  origins?: (Owner & { bytes: bigint })[];
}

export interface SyncRow extends CommonRow {
  type: 'sys_sync';
  file?: string;
  fileKind?: FileKind;
  fd?: number;
  syscall?: keyof typeof SYNC_SYSCALLS;
}

export type Row = WriteRow | BlockRow | SyncRow;

export const NODE = 'test-node';
export const START = 1_763_683_200_000_000_000n;

const UNTIL = `"recorded_until":${START},"recorded_until_time":"${formatTime(START)}"`;

/** Coverage in an answer from a complete recording of these tests. */
export const WHOLE = `{"complete":true,"lost":0,"losses":[],${UNTIL},"nodes":[{"node":"${NODE}",${UNTIL}}],"node_count":1}`;

const UNKNOWN = 2n ** 64n - 1n;
const DEFAULTS = { duration: 1000n, service: 'shop', pid: 100, tid: 100, comm: 'node', cpu: 0, result: 64n } as const;

const folders: { path: string; remove(): void }[] = [];
afterAll(() => {
  for (const { remove } of folders) remove();
});

/** Returns a folder that is removed after the tests of the file. */
export function newFolder(): string {
  const folder = temporaryFolder();
  folders.push(folder);
  return folder.path;
}

export function recordingPath(folder: string): string {
  return join(folder, 'recording.kreplay');
}

export function newWriter(folder: string, node = NODE, nowNs = START): RecordingWriter {
  const origin = { node, bootId: 'boot', machineId: 'machine' };
  // Every agent sets a limit: agents do not record into a recording without one.
  const retention = { bytes: 1 << 30 };
  return openWriter({ path: recordingPath(folder), ...origin, nowNs: () => nowNs, retention });
}

/** A folder with a finished recording of as many writes of fifty transactions; `count` is a multiple of 10,000. */
export function recordedWrites(count: number): string {
  const folder = newFolder();
  const writer = newWriter(folder);
  for (let written = 0; written < count; written += 10_000)
    appendRows(
      writer,
      Array.from({ length: 10_000 }, (_, i) => ({ at: START + BigInt(written + i), transaction: `tx-${i % 50}` })),
    );
  writer.close();
  return folder;
}

/** A folder with a finished recording of these rows, appended in this order. */
export function recorded(rows: readonly Row[], more?: (writer: RecordingWriter) => void): string {
  return recordedOn(NODE, rows, more);
}

export function recordedOn(node: string, rows: readonly Row[], more?: (writer: RecordingWriter) => void): string {
  const folder = newFolder();
  const writer = newWriter(folder, node);
  appendRows(writer, rows);
  more?.(writer);
  writer.close();
  return folder;
}

/** Changes what a recording says of itself, such as when its agent was last known to work, and whether it ended. */
export function setMeta(path: string, values: Record<string, bigint>): void {
  const database = new Database(path);
  const set = database.prepare('UPDATE meta SET value = CAST(? AS INTEGER) WHERE key = ?');
  for (const [key, value] of Object.entries(values)) set.run(value, key);
  database.close();
}

/** Appends the rows as an agent's flushes would, in blocks of at most `batch` rows. */
export function appendRows(writer: RecordingWriter, rows: readonly Row[], batch = 1000): void {
  for (let start = 0; start < rows.length; start += batch) {
    writer.append(blockOf(rows.slice(start, start + batch).map((row) => columnsOf(writer, row))));
    writer.flush();
  }
}

/** Says that calls and requests like these rows are in progress, those that began first; the next flush writes that. */
export function setInProgress(writer: RecordingWriter, rows: readonly Row[], unlisted = NONE_UNLISTED): void {
  writer.setInProgress({ block: blockOf(rows.map((row) => columnsOf(writer, row))), unlisted });
}

function contextOf(writer: RecordingWriter, { transaction, trace, span }: Owner): number {
  if (transaction === undefined && trace === undefined) return 0;
  return writer.contextId({ transactionId: transaction ?? null, traceId: trace ?? null, spanId: span ?? null });
}

function columnsOf(writer: RecordingWriter, row: Row): ColumnRow {
  const common = { ...DEFAULTS, ...row };
  const context = contextOf(writer, row);
  const type = row.type ?? 'sys_write';
  const own = ownValues(writer, row);
  return {
    event_type: type,
    timestamp_ns: common.at,
    duration_ns: common.duration,
    service: writer.nameId(common.service),
    context,
    context_source: ATTRIBUTION_SOURCES.indexOf(row.source ?? (context === 0 ? 'none' : 'marker')),
    context_quality: ATTRIBUTION_QUALITIES.indexOf(row.quality ?? (context === 0 ? 'none' : 'exact')),
    pid: common.pid,
    tid: common.tid,
    comm: writer.nameId(common.comm),
    cpu: common.cpu,
    result: common.result,
    ...Object.fromEntries(Object.entries(own).map(([name, value]) => [`${type}.${name}`, value])),
  };
}

function ownValues(writer: RecordingWriter, row: Row): Record<string, number | bigint> {
  if (row.type === 'block_io') return blockValues(writer, row);
  return row.type === 'sys_sync' ? syncValues(writer, row) : writeValues(writer, row);
}

function fileIdOf(writer: RecordingWriter, { file, fileKind }: WriteRow | SyncRow): number {
  return file === undefined ? 0 : writer.fileId(file, fileKind ?? 'regular');
}

function syncValues(writer: RecordingWriter, row: SyncRow): Record<string, number | bigint> {
  return { file: fileIdOf(writer, row), fd: row.fd ?? 5, syscall: SYNC_SYSCALLS[row.syscall ?? 'fsync'] };
}

function writeValues(writer: RecordingWriter, row: WriteRow): Record<string, number | bigint> {
  return {
    file: fileIdOf(writer, row),
    bytes_requested: row.requested ?? UNKNOWN,
    fd: row.fd ?? 1,
    syscall: WRITE_SYSCALLS[row.syscall ?? 'write'],
  };
}

function blockValues(writer: RecordingWriter, row: BlockRow): Record<string, number | bigint> {
  const origins = (row.origins ?? []).flatMap(({ bytes, ...owner }, slot) => [
    [`origins_${slot}_service`, writer.nameId(owner.service ?? DEFAULTS.service)],
    [`origins_${slot}_context`, contextOf(writer, owner)],
    [`origins_${slot}_bytes`, bytes],
  ]);
  return {
    sector: row.sector ?? 0n,
    bytes: row.bytes ?? 4096n,
    queue_ns: row.queue ?? UNKNOWN,
    operation: BLOCK_OPERATIONS[row.operation ?? 'write'],
    device: writer.nameId(row.device ?? 'sda'),
    ...(row.queuedBy && {
      queued_by_service: writer.nameId(row.queuedBy.service ?? DEFAULTS.service),
      queued_by_context: contextOf(writer, row.queuedBy),
    }),
    ...Object.fromEntries(origins),
  };
}
