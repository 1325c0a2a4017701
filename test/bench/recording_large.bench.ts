/** Measures queries on a large recording: 5 M synthetic events, or as many as `--events` says. */
import { type BenchContext, BenchError, type BenchResult, type Target } from './bench.ts';
import { readOverHttp } from './http_transactions.ts';
import { largeStore } from './large_store.ts';
import { median, type Percentiles } from './statistics.ts';
import { READ_LINES, runStore } from './store.ts';
import type { StreamCost, WriteCost } from './store_process.ts';
import type { ReadCost } from './store_reads.ts';
import type { SideName } from './store_sides.ts';
import { megabytes, microseconds, nanoseconds, percent, twoDigits } from './table.ts';

export const summary = 'time to read one transaction of 100 events out of a large recording, p99';
export const unit = 'ms';

const EVENTS = 5_000_000;
const EVENTS_MIN = 500_000;
/** Rows take eight times the space and the time: a larger recording is measured without its peer. */
const ROW_EACH_EVENTS_MAX = EVENTS;
const SHAPE = { eventsPerSecond: 10_000, eventsPerFlush: 4096 };
const TRANSACTIONS_READ = 1000;

const TRANSACTION_P99_MS_MAX = 5;
const FILTERED_SCAN_NS_MAX = 40;
const DEEP_PAGE_SHARE_MAX = 1.5;
const RSS_GROWTH_MAX = 0.1;

interface Measured {
  path: string;
  write: WriteCost;
  read: ReadCost;
  stream: StreamCost;
}

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, buildFolder, signal, sizes, progress } = context;
  const events = sizes.events ?? EVENTS;
  if (events < EVENTS_MIN) throw new BenchError(`${events} events are too few: give at least ${EVENTS_MIN}`);
  const measure = async (side: SideName): Promise<Measured> => {
    progress(`${side}: writing ${events} events, unless they are kept from the last time`);
    const { path, ...write } = await largeStore(side, { events, ...SHAPE }, buildFolder, signal);
    const { transactions } = write;
    progress(`${side}: reading`);
    const shape = { path, events, eventsPerSecond: SHAPE.eventsPerSecond, transactions };
    const read = await runStore(side, 'read', { ...shape, transactionsRead: TRANSACTIONS_READ }, signal);
    progress(`${side}: streaming everything`);
    const stream = await runStore(side, 'stream', { path, events }, signal);
    return { path, write, read, stream };
  };
  const kreplay = await measure('kreplay');
  const rowEach = events <= ROW_EACH_EVENTS_MAX ? await measure('row_each') : undefined;
  progress('kreplay: over HTTP');
  const asked = { transactions: kreplay.write.transactions, transactionsRead: TRANSACTIONS_READ };
  const overHttp = await readOverHttp({ path: kreplay.path, folder, signal, ...asked });

  const sides = rowEach ? { kreplay, row_each: rowEach } : { kreplay };
  return {
    value: p99Ms(kreplay),
    anchors: rowEach ? { row_each: p99Ms(rowEach) } : {},
    targets: targetsOf(kreplay, events),
    table: tableOf(sides, overHttp, events),
    details: { events, ...SHAPE, ...sides, over_http: overHttp },
  };
}

function p99Ms({ read }: Measured): number {
  return read.transactionNs.p99 / 1e6;
}

function tableOf(sides: Partial<Record<SideName, Measured>>, overHttp: Percentiles, events: number): string[][] {
  const all = Object.values(sides);
  const line = (text: string, pick: (of: Measured) => number, format: (value: number) => string) => [
    text,
    ...all.map((measured) => format(pick(measured))),
  ];
  const kreplayOnly = (text: string, value: string) => [text, value, ...all.slice(1).map(() => '')];
  return [
    [`${events} events`, ...Object.keys(sides)],
    line('bytes of the file for an event', ({ write }) => write.fileBytes / events, twoDigits),
    ...READ_LINES.map(([text, pick, format]) => line(text, ({ read }) => pick(read), format)),
    kreplayOnly('a transaction over HTTP: p50, us', microseconds(overHttp.p50)),
    kreplayOnly('p99, us', microseconds(overHttp.p99)),
    line('streaming all columns: ns an event', ({ stream }) => stream.wallNs, nanoseconds),
    line('its memory in the first quarter: MB', ({ stream }) => rssQuarters(stream).first, megabytes),
    line('in the last', ({ stream }) => rssQuarters(stream).last, megabytes),
    line('at most', ({ stream }) => Math.max(...stream.rssBytes), megabytes),
  ];
}

function targetsOf(kreplay: Measured, events: number): Target[] {
  const { rareEventsNs, firstPageNs, deepPageNs } = kreplay.read;
  const slowestScanNs = Math.max(...Object.values(rareEventsNs));
  const deepShare = deepPageNs / firstPageNs;
  const { first, last } = rssQuarters(kreplay.stream);
  return [
    {
      text: `a transaction of 100 out of ${events} events is read in ${TRANSACTION_P99_MS_MAX} ms, p99`,
      measured: `${twoDigits(p99Ms(kreplay))} ms`,
      met: p99Ms(kreplay) <= TRANSACTION_P99_MS_MAX,
    },
    {
      text: `a filter that matches few takes at most ${FILTERED_SCAN_NS_MAX} ns an event`,
      measured: `${nanoseconds(slowestScanNs)} ns`,
      met: slowestScanNs <= FILTERED_SCAN_NS_MAX,
    },
    {
      text: `a page near the end takes at most ${DEEP_PAGE_SHARE_MAX} of the first one's time`,
      measured: twoDigits(deepShare),
      met: deepShare <= DEEP_PAGE_SHARE_MAX,
    },
    {
      text: `memory stays flat while everything is read: at most ${percent(RSS_GROWTH_MAX)} more in the last quarter than in the first`,
      measured: percent(last / first - 1),
      met: last / first - 1 <= RSS_GROWTH_MAX,
    },
  ];
}

/** Medians of the memory in the first and the last quarter. */
function rssQuarters({ rssBytes }: StreamCost): { first: number; last: number } {
  const quarter = Math.ceil(rssBytes.length / 4);
  return { first: median(rssBytes.slice(0, quarter)), last: median(rssBytes.slice(-quarter)) };
}
