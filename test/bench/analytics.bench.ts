/** Measures questions about all events, compared with SQLite's rows and with DuckDB, an analytical database. */
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type AnalyticsSide, type Answered, QUESTIONS, type Question } from './analytics_questions.ts';
import { type BenchContext, BenchError, type BenchResult } from './bench.ts';
import { transactionName } from './event_stream.ts';
import { type LargeStore, largeStore } from './large_store.ts';
import { KREPLAY, NODE, run as runProgram } from './process.ts';
import { interleaved } from './rounds.ts';
import { median } from './statistics.ts';
import { nanoseconds, twoDigits } from './table.ts';

export const summary = 'questions about all events, beside SQLite with a row for each and DuckDB with one thread';
export const unit = 'ns an event, count by duration';

const EVENTS = 2_000_000;
const SHAPE = { eventsPerSecond: 10_000, eventsPerFlush: 4096 };
const ROUNDS = 3;
const DUCKDB = '@duckdb/node-api@1.5.6-r.1';
const SIDES: readonly AnalyticsSide[] = ['kreplay', 'row_each', 'duckdb'];
const NAMES = Object.keys(QUESTIONS) as Question[];
const PROGRAM = join(import.meta.dirname, 'analytics_process.ts');

export async function run(context: BenchContext): Promise<BenchResult> {
  const { buildFolder, signal, sizes, progress } = context;
  const events = sizes.events ?? EVENTS;
  progress(`writing ${events} events three times, unless they are kept from the last time`);
  const kreplay = await largeStore('kreplay', { events, ...SHAPE }, buildFolder, signal);
  const rows = await largeStore('row_each', { events, ...SHAPE }, buildFolder, signal);
  const packages = await installed(buildFolder, signal);
  const imported = await importedByDuckDb(kreplay, packages, context);
  const paths = { kreplay: kreplay.path, row_each: rows.path, duckdb: imported };
  const transaction = transactionName(Math.floor(kreplay.transactions / 2));
  const measured = await interleaved(SIDES, ROUNDS, async (side, round) => {
    progress(`round ${round + 1} of ${ROUNDS}: ${side}`);
    const request = JSON.stringify({ path: paths[side], packages, transaction });
    const { stdout } = await runProgram([...NODE, PROGRAM, side, request], { signal });
    return JSON.parse(stdout) as Record<Question, Answered>;
  });
  checkAgreement(measured);
  const ns = (side: AnalyticsSide, name: Question) => median(measured[side].map((answered) => answered[name].ns));
  const perEvent = (side: AnalyticsSide, name: Question) => ns(side, name) / events;
  const shown = (side: AnalyticsSide, name: Question) =>
    QUESTIONS[name].endsWith('us') ? nanoseconds(ns(side, name) / 1000) : twoDigits(perEvent(side, name));
  const counted = perEvent('kreplay', 'count_duration');
  return {
    value: counted,
    anchors: { row_each: perEvent('row_each', 'count_duration'), duckdb: perEvent('duckdb', 'count_duration') },
    targets: [
      { text: 'a count takes at most 10 ns an event', measured: twoDigits(counted), met: counted <= 10 },
      ...(['rows_duration', 'rows_service', 'sums'] as const).map((name) => ({
        text: `faster than DuckDB: ${QUESTIONS[name]}`,
        measured: `${shown('kreplay', name)} and ${shown('duckdb', name)}`,
        met: ns('kreplay', name) < ns('duckdb', name),
      })),
    ],
    table: [
      ['', ...SIDES],
      ...NAMES.map((name) => [QUESTIONS[name], ...SIDES.map((side) => shown(side, name))]),
      ['bytes of the file for an event', ...SIDES.map((side) => twoDigits(statSync(paths[side]).size / events))],
    ],
    details: { events, measured },
  };
}

/** Installs DuckDB beside what the benches keep: nothing else needs its 70 MB. */
async function installed(buildFolder: string, signal: AbortSignal): Promise<string> {
  const folder = join(buildFolder, 'duckdb');
  if (!existsSync(join(folder, 'node_modules/@duckdb/node-api'))) {
    mkdirSync(folder, { recursive: true });
    await runProgram(['npm', 'install', '--prefix', folder, '--no-audit', '--no-fund', DUCKDB], { signal });
  }
  return folder;
}

interface Importer {
  DuckDBInstance: {
    create(
      path: string,
    ): Promise<{ connect(): Promise<{ run(sql: string): Promise<unknown>; closeSync(): void }>; closeSync(): void }>;
  };
}

async function importedByDuckDb(
  { path }: LargeStore,
  packages: string,
  { folder, signal, progress }: BenchContext,
): Promise<string> {
  progress('DuckDB imports the events');
  const csv = join(folder, 'events.csv');
  const imported = join(folder, 'events.duckdb');
  const all = ['--from', '2000-01-01T00:00:00Z', '--to', '2100-01-01T00:00:00Z'];
  await runProgram([...KREPLAY, 'export', '--recording', path, ...all, '--format', 'csv', '--output', csv], { signal });
  const { DuckDBInstance }: Importer = createRequire(`${packages}/package.json`)('@duckdb/node-api');
  const instance = await DuckDBInstance.create(imported);
  const connection = await instance.connect();
  await connection.run(`CREATE TABLE events AS SELECT * FROM read_csv('${csv}')`);
  await connection.run('CHECKPOINT');
  connection.closeSync();
  instance.closeSync();
  rmSync(csv);
  return imported;
}

/** All have the same events, so they have to find the same number of them. */
function checkAgreement(measured: Record<AnalyticsSide, Record<Question, Answered>[]>): void {
  for (const name of NAMES) {
    const found = new Set(SIDES.flatMap((side) => measured[side].map((answered) => answered[name].found)));
    if (found.size > 1) throw new BenchError(`${QUESTIONS[name]}: they found ${[...found].join(', ')}`);
  }
}
