/** Measures the recording against SQLite with a row for each event: the same synthetic events, no kernel. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type BenchContext, BenchError, type BenchResult, type Target } from './bench.ts';
import { interleaved } from './rounds.ts';
import { median } from './statistics.ts';
import { READ_LINES, runStore } from './store.ts';
import type { WriteCost } from './store_process.ts';
import type { ReadCost } from './store_reads.ts';
import { SIDES, type SideName } from './store_sides.ts';
import { nanoseconds, twoDigits } from './table.ts';

export const summary = 'CPU time to store an event and time to read it, beside SQLite with a row for each';
export const unit = 'ns';

const ROUNDS = 3;
const EVENTS = 1_000_000;
/** Enough for the slowest events and for the transactions that are read. */
const EVENTS_MIN = 500_000;
const TRANSACTIONS_READ = 200;
/** The agent flushes six times a second. */
const BUSY = { eventsPerSecond: 10_000, eventsPerFlush: 1600 };
/** A minute of a less busy host. */
const QUIET = { events: 60_000, eventsPerSecond: 1000, eventsPerFlush: 160 };

const FILE_BYTES_MAX = 12;
const WRITTEN_PER_STORED_MAX = 3;
const QUIET_BYTES_PER_SECOND_MAX = 50_000;

const NAMES = Object.keys(SIDES) as SideName[];

interface Cost {
  write: WriteCost;
  read: ReadCost;
}

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, signal, sizes, progress } = context;
  const events = sizes.events ?? EVENTS;
  if (events < EVENTS_MIN) throw new BenchError(`${events} events are too few: give at least ${EVENTS_MIN}`);
  const path = join(folder, 'store');
  const measured = await interleaved(NAMES, ROUNDS, async (side, round): Promise<Cost> => {
    progress(`round ${round + 1} of ${ROUNDS}: ${side}`);
    const write = await runStore(side, 'write', { path, events, ...BUSY }, signal);
    const { transactions } = write;
    const shape = { path, events, eventsPerSecond: BUSY.eventsPerSecond, transactions };
    const read = await runStore(side, 'read', { ...shape, transactionsRead: TRANSACTIONS_READ }, signal);
    rmSync(path);
    return { write, read };
  });
  progress('a quiet host');
  const quiet = await runStore('kreplay', 'write', { path, ...QUIET }, signal);
  rmSync(path);

  const cpuNs = (side: SideName) => median(measured[side].map(({ write }) => write.userNs + write.systemNs));
  return {
    value: cpuNs('kreplay'),
    anchors: { row_each: cpuNs('row_each') },
    targets: targetsOf(measured.kreplay, quiet, events),
    table: tableOf(measured, events),
    details: { rounds: ROUNDS, events, ...BUSY, measured, quiet: { ...QUIET, ...quiet } },
  };
}

function tableOf(measured: Record<SideName, Cost[]>, events: number): string[][] {
  const line = (text: string, pick: (cost: Cost) => number, format: (value: number) => string) => [
    text,
    ...NAMES.map((side) => format(median(measured[side].map(pick)))),
  ];
  return [
    ['', ...NAMES],
    line('write: user CPU, ns an event', ({ write }) => write.userNs, nanoseconds),
    line('system CPU, ns an event', ({ write }) => write.systemNs, nanoseconds),
    line('bytes of the file for an event', ({ write }) => write.fileBytes / events, twoDigits),
    line('bytes written for each of the file', ({ write }) => write.writtenBytes / write.fileBytes, twoDigits),
    ...READ_LINES.map(([text, pick, format]) => line(text, ({ read }) => pick(read), format)),
  ];
}

function targetsOf(costs: readonly Cost[], quiet: WriteCost, events: number): Target[] {
  const fileBytes = median(costs.map(({ write }) => write.fileBytes)) / events;
  const writtenPerStored = median(costs.map(({ write }) => write.writtenBytes / write.fileBytes));
  const quietBytes = quiet.writtenBytes / (QUIET.events / QUIET.eventsPerSecond);
  return [
    {
      text: `an event takes at most ${FILE_BYTES_MAX} bytes`,
      measured: twoDigits(fileBytes),
      met: fileBytes <= FILE_BYTES_MAX,
    },
    {
      text: `at ${BUSY.eventsPerSecond} events/s at most ${WRITTEN_PER_STORED_MAX} bytes are written for each of the file`,
      measured: twoDigits(writtenPerStored),
      met: writtenPerStored <= WRITTEN_PER_STORED_MAX,
    },
    {
      text: `at ${QUIET.eventsPerSecond} events/s at most ${QUIET_BYTES_PER_SECOND_MAX} bytes are written a second`,
      measured: quietBytes.toFixed(0),
      met: quietBytes <= QUIET_BYTES_PER_SECOND_MAX,
    },
  ];
}
