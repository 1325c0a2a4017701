/**
 * Makes incidents of a few calls in sequence, and runs a build that makes calls in sequence and reports the result of
 * each.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BlockRow, newFolder, type Row, START, type SyncRow, type WriteRow } from '../recorded.ts';
import { bundleOf, MS, type RealRun, run } from './incident.ts';

const PROGRAM = join(import.meta.dirname, 'calls.py');

const inMemory: string[] = [];

/** Returns a folder in memory: a disk that other programs use would make calls slow that no incident made slow. */
export function newFolderInMemory(): string {
  const folder = mkdtempSync('/dev/shm/kreplay-run-');
  inMemory.push(folder);
  return folder;
}

/** Tests call it in afterAll(). */
export function removeFoldersInMemory(): void {
  for (const folder of inMemory.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Duration that counts as `slow`. */
export const SLOW = 300n * MS;

const OWNER = { tid: 7, comm: 'python3', fd: 5 };

export type RecordedCall = Omit<WriteRow, 'at'> | Omit<SyncRow, 'at'> | Omit<BlockRow, 'at'>;

export function written(file: string, more: Partial<WriteRow> = {}): Omit<WriteRow, 'at'> {
  return { ...OWNER, file, requested: 1n, ...more };
}

export function synced(file: string, more: Partial<SyncRow> = {}): Omit<SyncRow, 'at'> {
  return { ...OWNER, type: 'sys_sync', file, ...more };
}

export function inARow(calls: readonly RecordedCall[]): Row[] {
  let at = START;
  return calls.map((call) => {
    const row = { ...call, at };
    at += (call.duration ?? 0n) + MS;
    return row;
  });
}

/** A call with `comm` is made by a thread of that name; a write has one byte unless `bytes` says otherwise. */
export type MadeCall = readonly [
  what: 'write' | 'fsync' | 'sync' | 'msync',
  file: string | number,
  comm?: string,
  bytes?: number,
];

export interface Made extends RealRun {
  /** The result of each call: `slow`, `quick`, or the error. */
  felt: string[];
}

export async function make(rows: readonly Row[], calls: readonly MadeCall[], options: readonly string[] = []) {
  const list = join(newFolder(), 'calls.json');
  writeFileSync(list, JSON.stringify(calls));
  const ended = await run(bundleOf(rows), options, ['python3', PROGRAM, list]);
  if (ended.code !== 0) throw new Error(ended.stderr);
  return { ...ended, felt: ended.stdout.trim().split(' ') } satisfies Made;
}
