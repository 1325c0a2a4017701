/** Makes incidents for real runs: recordings of writes to a file that the run writes too. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunResult } from '../../../daemon/run/report/result.ts';
import type { Ended } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { newFolder, type Row, recorded, recordingPath, START, type WriteRow } from '../recorded.ts';
import { TRANSACTION } from './planned.ts';

export const MS = 1_000_000n;

/** Sequential writes of one thread that took these numbers of milliseconds. */
export function writesTo(file: string, milliseconds: readonly number[], more: Partial<WriteRow> = {}): Row[] {
  let at = START;
  return milliseconds.map((ms) => {
    const duration = BigInt(Math.round(ms * 1000)) * 1000n;
    const row: Row = {
      at,
      duration,
      file,
      requested: 4096n,
      fd: 1,
      comm: 'dd',
      tid: 7,
      transaction: TRANSACTION,
      ...more,
    };
    at += duration + MS;
    return row;
  });
}

export function bundleOf(rows: readonly Row[]): string {
  return recordingPath(recorded(rows.map((row) => ({ transaction: TRANSACTION, ...row }))));
}

export interface RealRun extends Ended {
  result: RunResult;
}

/** Runs `kreplay run` with its JSON report. Its exit code is that of the command, unless an option requires more. */
export async function run(bundle: string, options: readonly string[], command: readonly string[]): Promise<RealRun> {
  const report = join(newFolder(), 'report.json');
  const incident = ['--bundle', bundle, '--transaction', TRANSACTION];
  const ended = await hosted('run', ...incident, '--report', report, '--require', 'none', ...options, '--', ...command);
  let text: string;
  try {
    text = readFileSync(report, 'utf8');
  } catch {
    throw new Error(`there is no report: ${ended.code} ${ended.stderr}`);
  }
  return { ...ended, result: JSON.parse(text) };
}
