/** Measures queries on a store of events, in wall time. */
import { endOf, SLOWEST_EVENTS, START_NS, TRANSACTION_EVENTS, transactionName } from './event_stream.ts';
import { median, type Percentiles, percentilesOf } from './statistics.ts';
import { type RareFilter, SIDES, type SideName } from './store_sides.ts';

export interface ReadRequest {
  path: string;
  events: number;
  eventsPerSecond: number;
  /** Number of complete transactions in the store, and how many of them to read. */
  transactions: number;
  transactionsRead: number;
}

export interface ReadCost {
  transactionNs: Percentiles;
  /** Wall time per event in the store. */
  rareEventsNs: Record<RareFilter, number>;
  twoColumnsNs: number;
  slowestNs: number;
  firstPageNs: number;
  deepPageNs: number;
  windowNs: Percentiles;
  latestNs: number;
}

const PAGE_EVENTS = 1000;
const PAGES_READ = 50;
const DEEP = 0.95;
const WINDOWS_READ = 100;
const WINDOW_NS = 100_000_000n;
/** Number of scans over everything; the fastest counts. */
const SCANS = 2;

const GOLDEN_RATIO = 0.6180339887;

export function read(side: SideName, { path, events, eventsPerSecond, ...asked }: ReadRequest): ReadCost {
  const reads = SIDES[side].openReads(path);
  const timeAt = (place: number) => START_NS + BigInt(endOf(Math.floor(place * events), eventsPerSecond));
  const pageNs = (work: () => number) => median(warmNs(PAGES_READ, work, exactly(PAGE_EVENTS)));
  const rareNs = (by: RareFilter, expected = some) => fastestNs(() => reads.rareEvents(by), expected) / events;
  const cost = {
    transactionNs: percentilesOf(
      warmNs(
        asked.transactionsRead,
        (place) => reads.transaction(transactionName(Math.floor(place * asked.transactions))),
        exactly(TRANSACTION_EVENTS),
      ),
    ),
    rareEventsNs: {
      duration: rareNs('duration'),
      pid: rareNs('pid'),
      service: rareNs('service'),
      nothing: rareNs('nothing', exactly(0)),
    },
    twoColumnsNs: fastestNs(reads.twoColumns, exactly(events)) / events,
    slowestNs: fastestNs(reads.slowest, exactly(SLOWEST_EVENTS)),
    firstPageNs: pageNs(() => reads.page(0n, PAGE_EVENTS)),
    deepPageNs: pageNs(() => reads.page(timeAt(DEEP), PAGE_EVENTS)),
    windowNs: percentilesOf(
      warmNs(WINDOWS_READ, (place) => reads.window(timeAt(place), timeAt(place) + WINDOW_NS), some),
    ),
    latestNs: pageNs(() => reads.latest(PAGE_EVENTS)),
  };
  reads.close();
  return cost;
}

type Expected = (found: number) => boolean;

const some: Expected = (found) => found > 0;
const exactly =
  (count: number): Expected =>
  (found) =>
    found === count;

/** Runs twice as many and discards the first half, which compiles the code and fills caches. */
function warmNs(count: number, work: (place: number) => number, expected: Expected): number[] {
  return scatteredPlaces(count * 2)
    .map((place) => timeNs(() => work(place), expected))
    .slice(count);
}

/** Places spread over [0, 1), out of order. */
export function scatteredPlaces(count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i * GOLDEN_RATIO) % 1);
}

function fastestNs(work: () => number, expected: Expected): number {
  return Math.min(...Array.from({ length: SCANS }, () => timeNs(work, expected)));
}

function timeNs(work: () => number, expected: Expected): number {
  const startMs = performance.now();
  const found = work();
  const tookMs = performance.now() - startMs;
  if (!expected(found)) throw new Error(`${found} events were found, which is wrong`);
  return tookMs * 1e6;
}
