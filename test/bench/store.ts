/** Runs the processes that write and read a store of events, and formats their costs. */
import { join } from 'node:path';
import type { StoreCost } from './metered_writer.ts';
import { NODE, run } from './process.ts';
import type { CopyRequest, StreamCost, StreamRequest, WriteCost, WriteRequest } from './store_process.ts';
import type { ReadCost, ReadRequest } from './store_reads.ts';
import type { SideName } from './store_sides.ts';
import { microseconds, nanoseconds } from './table.ts';

const PROGRAM = join(import.meta.dirname, 'store_process.ts');

interface Actions {
  write: { request: WriteRequest; cost: WriteCost };
  copy: { request: CopyRequest; cost: StoreCost };
  read: { request: ReadRequest; cost: ReadCost };
  stream: { request: StreamRequest; cost: StreamCost };
}

export async function runStore<Action extends keyof Actions>(
  side: SideName,
  action: Action,
  request: Actions[Action]['request'],
  signal: AbortSignal,
): Promise<Actions[Action]['cost']> {
  const { stdout } = await run([...NODE, PROGRAM, side, action, JSON.stringify(request)], { signal });
  return JSON.parse(stdout);
}

type Line<Cost> = readonly [text: string, pick: (cost: Cost) => number, format: (value: number) => string];

export const READ_LINES: readonly Line<ReadCost>[] = [
  ['a transaction of 100 events: p50, us', ({ transactionNs }) => transactionNs.p50, microseconds],
  ['p99, us', ({ transactionNs }) => transactionNs.p99, microseconds],
  ['four in 4096 by duration: ns an event', ({ rareEventsNs }) => rareEventsNs.duration, nanoseconds],
  ['by pid: ns an event', ({ rareEventsNs }) => rareEventsNs.pid, nanoseconds],
  ['by service: ns an event', ({ rareEventsNs }) => rareEventsNs.service, nanoseconds],
  ['none by pid: ns an event', ({ rareEventsNs }) => rareEventsNs.nothing, nanoseconds],
  ['the 20 slowest of all: us', ({ slowestNs }) => slowestNs, microseconds],
  ['two columns of all: ns an event', ({ twoColumnsNs }) => twoColumnsNs, nanoseconds],
  ['first page of 1000: us', ({ firstPageNs }) => firstPageNs, microseconds],
  ['page of 1000 near the end: us', ({ deepPageNs }) => deepPageNs, microseconds],
  ['newest 1000: us', ({ latestNs }) => latestNs, microseconds],
  ['100 ms of time, 1000 events: p50, us', ({ windowNs }) => windowNs.p50, microseconds],
  ['p99, us', ({ windowNs }) => windowNs.p99, microseconds],
];
