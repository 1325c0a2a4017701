/** Makes exports in this process, and events that test every corner of a format. */
import { execFileSync } from 'node:child_process';
import { watch } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../../../agent/recording/format/database.ts';
import { FORMATS, type FormatName } from '../../../daemon/export/formats/format.ts';
import { type ExportSummary, exportEvents } from '../../../daemon/export/incident/export.ts';
import type { ExportSelection } from '../../../daemon/export/incident/selection.ts';
import { openSource } from '../../../daemon/export/source.ts';
import { readBlockEvents } from '../../../daemon/store/blocks/event.ts';
import { newFolder, type Row, START } from '../recorded.ts';

/** Two transactions, and events around them. */
export const INCIDENT: readonly Row[] = [
  { at: START, service: 'cart', pid: 1 },
  { at: START + 1000n, duration: 500n, transaction: 'order-1', pid: 2 },
  { type: 'block_io', at: START + 1200n, duration: 1000n, transaction: 'order-1', pid: 3 },
  { at: START + 2500n, service: 'cart', pid: 4 },
  { at: START + 9000n, transaction: 'order-2', pid: 5 },
];

interface Options {
  selection?: ExportSelection;
  redact?: boolean;
}

export interface Exported extends ExportSummary {
  path: string;
}

/** Exports to a file in a folder of its own, which is removed after the tests. */
export async function exported(data: string, name: FormatName, options: Options = {}): Promise<Exported> {
  const path = join(newFolder(), `export.${name}`);
  const source = openSource(data);
  try {
    const summary = await exportEvents({
      source,
      selection: options.selection ?? { filter: {}, window: {} },
      format: FORMATS[name],
      output: path,
      force: false,
      redact: options.redact ?? false,
      signal: new AbortController().signal,
      onProgress() {},
    });
    return { ...summary, path };
  } finally {
    source.close();
  }
}

/** All events as the API returns them, in order. */
export function recordedEvents(data: string): Record<string, unknown>[] {
  const source = openSource(data);
  try {
    return [...source.scan({})].flatMap(readBlockEvents) as unknown as Record<string, unknown>[];
  } finally {
    source.close();
  }
}

/** Resolves when a file is created in the folder. */
export function appearing(folder: string): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(folder, () => {
      watcher.close();
      resolve();
    });
  });
}

/** Changes a recording and its checksums: as kreplay's own writers do, or an attacker. */
export function changeWith(path: string, sql: string): void {
  const database = openDatabase(path, {});
  database.exec(sql);
  database.close();
}

/** Output of another program that reads a file. */
export function readWith(program: string, args: readonly string[], input?: string | Buffer): string {
  return execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28, ...(input && { input }) });
}

export const TRACE = '0af7651916cd43dd8448eb211c80319c';
export const SPAN = 'b7ad6b7169203331';
export const I64_MAX = 2n ** 63n - 1n;
export const U64_MAX = 2n ** 64n - 1n;

/**
 * Rows with every field of both types: the largest values, texts that break naive writers, and missing values where
 * allowed.
 */
export const CORNER_ROWS: readonly Row[] = [
  {
    at: START,
    duration: 1_234_567n,
    service: '=cmd|"/c calc"!A1',
    transaction: 'order-1',
    trace: TRACE,
    span: SPAN,
    source: 'otel',
    quality: 'shared',
    pid: 4_194_303,
    tid: 4_194_302,
    comm: 'a,b "c"',
    cpu: 65_535,
    result: -(2n ** 63n),
    file: '/var/lib/\u{1f4be}/new\nline\r\n,"q"/\u001b[31m\t',
    fileKind: 'regular',
    requested: U64_MAX - 1n,
    fd: -1,
    syscall: 'pwritev2',
  },
  { at: START + 1n, duration: 0n, service: '', comm: '', result: -28n },
  {
    at: START + 2n,
    duration: 5n,
    service: "'quoted",
    transaction: '@order',
    file: 'socket:[12345]',
    fileKind: 'socket',
  },
  {
    type: 'block_io',
    at: START + 3n,
    duration: 100n,
    transaction: 'order-1',
    source: 'origin',
    sector: U64_MAX,
    bytes: I64_MAX,
    queue: 0n,
    operation: 'flush',
    device: 'nvme0n1',
    origins: [
      { service: 'shop', transaction: 'order-1', bytes: I64_MAX },
      { service: 'kernel', bytes: 0n },
    ],
  },
  { type: 'block_io', at: START + 50n, duration: 100n, device: 'nvme0n1', operation: 'read' },
  { type: 'block_io', at: START + 103n, duration: 1n, device: 'nvme0n1', operation: 'write' },
];
