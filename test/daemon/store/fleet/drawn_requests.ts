/** Requests of events, drawn at random from values that the corpus has, and from some that it has not. */
import fc from 'fast-check';
import type { EventFilter, EventValues } from '../../../../agent/recording/read/event_filter.ts';
import type { ScanRequest, TransactionFilter, TransactionsRequest } from '../../../../daemon/store/store.ts';
import { DIMENSION_NAMES } from '../../../../daemon/sums/dimensions.ts';
import { START } from '../../recorded.ts';
import { DURATIONS, FILES, HOSTILE, NODES, RESULTS, SECOND, SERVICES, TRACES, TRANSACTIONS } from './corpus.ts';

const some = <T>(values: readonly T[], maxLength = 3) =>
  fc.uniqueArray(fc.constantFrom(...values), { minLength: 0, maxLength });

const PATTERNS = [
  ...FILES,
  ...[
    '/srv/db*',
    '/srv/*',
    '/srv/db/',
    '/srv/',
    '/',
    '*',
    '/a\\*',
    'not there',
    'not there*',
    '/ü/\\\\',
    '/srv/db\\/',
    '/x*',
  ],
];

const values: fc.Arbitrary<EventValues> = fc
  .record(
    {
      services: some([...SERVICES, '', 'not there']),
      nodes: some([...NODES, '', 'not there']),
      eventTypes: some(['sys_write', 'sys_sync', 'block_io'] as const),
      comms: some([...HOSTILE, '', 'not there']),
      results: some(RESULTS),
      operations: some(['read', 'write', 'flush', 'not there', '']),
      syscalls: some(['write', 'pwrite64', 'fsync', 'sync', '']),
      devices: some([...HOSTILE, '', 'not there']),
      files: some(PATTERNS, 4),
      queuers: some([...TRANSACTIONS, '', 'not there']),
    },
    { requiredKeys: [] },
  )
  .chain((all) => fewOf(all, 2));

/** Most fields of a filter are left out: many conditions together select nothing. */
function fewOf<T extends object>(all: T, maxLength: number): fc.Arbitrary<T> {
  const names = Object.keys(all);
  return fc.subarray(names, { maxLength: Math.min(maxLength, names.length) }).map((some) => only(all, some));
}

function only<T extends object>(all: T, names: readonly string[]): T {
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name))) as T;
}

const time = fc.oneof(
  fc.bigInt({ min: START - 60n * SECOND, max: START + 1200n * SECOND }),
  fc.constantFrom(
    0n,
    -5n,
    START,
    START + 60n * SECOND,
    START + 600n * SECOND,
    START + 40n * SECOND,
    START - 20_000n * SECOND + 3n,
    2n ** 64n,
    2n ** 64n - 1n,
  ),
);
const duration = fc.constantFrom(...DURATIONS, 2n, 2n ** 53n, 2n ** 64n - 1n, 2n ** 64n);

export const drawnFilter: fc.Arbitrary<EventFilter> = fc
  .record(
    {
      transactionId: fc.constantFrom(...TRANSACTIONS, '', 'not there'),
      traceId: fc.constantFrom(...TRACES, '', 'not hex', '0'.repeat(32)),
      fromNs: time,
      toNs: time,
      minDurationNs: duration,
      maxDurationNs: duration,
      pid: fc.constantFrom(100, 101, 103, 7),
      failed: fc.boolean(),
    },
    { requiredKeys: [] },
  )
  .chain((all) => fewOf(all, 3))
  .chain((filter) =>
    fc.record({ included: values, excluded: fc.option(values, { nil: undefined }) }).map(({ included, excluded }) => ({
      ...filter,
      ...included,
      ...(excluded && { excluded }),
    })),
  );

export const drawnOrder: fc.Arbitrary<ScanRequest['order']> = fc.constantFrom('asc', 'desc');

/** Bounds that transactions can have; most filters have none of the values that only their events have. */
const bounds = fc.record(
  {
    fromNs: time,
    toNs: time,
    minDurationNs: duration,
    maxDurationNs: duration,
    hasError: fc.boolean(),
    idPart: fc.constantFrom('order', 'ORDER-1', "') or 1", '\\', '%', '_', '*', '\0', 'ü', 'Ü', 'not there'),
  },
  { requiredKeys: [] },
);

export const drawnTransactionFilter: fc.Arbitrary<TransactionFilter> = fc
  .record({ bounds, included: values, excluded: fc.option(values, { nil: undefined }) })
  .chain(({ bounds: all, included, excluded }) =>
    fewOf(all, 2).map((few) => ({ ...few, ...included, ...(excluded && { excluded }) })),
  );

export const drawnSort: fc.Arbitrary<TransactionsRequest['sort']> = fc.constantFrom('recent', 'slowest');
export const drawnGroups = fc.uniqueArray(fc.constantFrom(...DIMENSION_NAMES), { maxLength: 2 });

const summedValues = fc.record(
  {
    services: some([...SERVICES, '', 'not there']),
    nodes: some([...NODES, 'not there']),
    eventTypes: some(['sys_write', 'sys_sync', 'block_io'] as const),
  },
  { requiredKeys: [] },
);

/** Questions that sums of minutes answer, mostly; times are at minutes, between them, and missing. */
export const drawnSums = fc
  .record({
    times: fc.record({ fromNs: time, toNs: time }, { requiredKeys: [] }),
    values: summedValues.chain((all) => fewOf(all, 2)),
    excluded: fc.option(
      summedValues.chain((all) => fewOf(all, 2)),
      { nil: undefined },
    ),
    bucketNs: fc.constantFrom(undefined, 60n * SECOND, 120n * SECOND, 3600n * SECOND, 90n * SECOND),
    groupBy: fc.subarray(['service', 'node', 'event_type'] as const),
  })
  .map(({ times, values: of, excluded, ...more }) => ({
    filter: { ...times, ...of, ...(excluded && { excluded }) },
    ...more,
  }));
