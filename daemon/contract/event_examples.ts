/** Examples of what the endpoints for events, transactions, pins and names take and answer. */
import { stringify } from '../base/exact_json.ts';
import type { Example } from './endpoint.ts';
import {
  FIRST_WRITE,
  LAST_WRITE,
  NODE,
  RECORDED_UNTIL_NS,
  RECORDING,
  SYNC,
  SYNC_ID,
  WRITTEN_BACK,
} from './recorded_examples.ts';

/** The events of a transaction as a line of columns. */
const LINE = {
  base_ns: '1763683140000000000',
  types: { 1: 'sys_write', 2: 'block_io', 3: 'sys_sync' },
  recordings: [[RECORDING, NODE]],
  threads: [
    [0, 4711, 4711, 'node', 'shop'],
    [0, 812, 815, 'postgres', 'db'],
    [0, 97, 97, 'kworker/u8:1', 'kernel'],
  ],
  whats: [
    ['write', '/var/log/shop/orders.log', 'regular'],
    ['pwrite64', '/srv/db/wal/0001', 'regular'],
    ['fdatasync', '/srv/db/wal/0001', 'regular'],
    ['write', 'sda', null],
  ],
  owners: [
    ['order-1', 'marker', 'exact', null],
    ['order-1', 'marker', 'exact', 'order-1'],
    ['order-1', 'origin', 'exact', null],
  ],
  errors: { '-28': 'ENOSPC' },
  start: [0, 2_048_000, 2_176_000, 2_304_000, 247_040_000, 5_120_000_000],
  duration: [38_400, 64_000, 242_304_000, 241_920_000, 51_200, 896_000],
  type: [1, 1, 3, 2, 1, 2],
  thread: [0, 1, 1, 1, 0, 2],
  what: [0, 1, 2, 3, 0, 3],
  owner: [0, 0, 0, 1, 0, 2],
  result: [64, 8192, 0, 0, -28, 0],
  bytes: [64, 8192, null, 8192, 96, 4096],
  queue: [null, null, null, 1_920_000, null, 153_600],
  number: [1, 2, 4, 3, 5, 6],
  origins: [
    [3, 'db', 'order-1', 8192],
    [5, 'shop', 'order-1', 64],
  ],
};

const RECORDED = {
  recorded_until: RECORDED_UNTIL_NS,
  nodes: [{ node: NODE, recorded_until: RECORDED_UNTIL_NS }],
};
const WHOLE = { complete: true, lost: 0, gaps: [], ...RECORDED };
const LOST = {
  complete: false,
  lost: 12,
  gaps: [
    { from: 1_763_682_600_000_000_000n, to: 1_763_682_601_000_000_000n, lost: 12, cause: 'ring_full', node: NODE },
  ],
  ...RECORDED,
};

const TRANSACTION = {
  transaction_id: 'order-1',
  trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
  first_timestamp_ns: 1_763_683_140_000_000_000n,
  last_end_ns: 1_763_683_140_247_091_200n,
  duration_ns: 247_091_200,
  written_back: { count: 1, bytes: 64, last_end_ns: 1_763_683_145_120_896_000n },
  event_count: 6,
  error_count: 1,
  slowest_event_id: SYNC_ID,
  services: ['db', 'kernel', 'shop'],
  nodes: [NODE],
  pinned: false,
};

const PINNED = {
  transaction_id: 'order-1',
  from: 1_763_683_080_000_000_000n,
  pinned_at: '2025-11-21T00:00:00.000Z',
};

const TAIL = `retry: 2000

event: event
id: Afbc6ZsYedu1HCTYABh53HiwC6gACSGyZGaiRNEAAAAAAAAAAQkhsmRmokTRAAAAAAAAAAcAAAAB
data: ${stringify(FIRST_WRITE)}

`;

export const EVENT_EXAMPLES: Readonly<Record<string, Example>> = {
  listEvents: {
    answers: {
      'application/json': { events: [WRITTEN_BACK, LAST_WRITE], next_cursor: null, coverage: WHOLE },
      'application/x-ndjson': [WRITTEN_BACK, LAST_WRITE].map((event) => `${stringify(event)}\n`).join(''),
      'text/event-stream': TAIL,
      'application/vnd.kreplay.columns': buildColumnExample(WHOLE),
    },
  },
  getEvent: { answers: { 'application/json': FIRST_WRITE } },
  getStats: {
    answers: {
      'application/json': {
        stats: [
          {
            bucket_start_ns: 1_763_683_140_000_000_000n,
            group: { service: 'db', event_type: 'sys_sync' },
            count: 1,
            error_count: 0,
            bytes: 0,
            duration_ns: { sum: 242_304_000, p50: 242_221_056, p90: 242_221_056, p99: 242_221_056, max: 242_304_000 },
          },
          {
            bucket_start_ns: 1_763_683_140_000_000_000n,
            group: { service: 'shop', event_type: 'sys_write' },
            count: 2,
            error_count: 1,
            bytes: 64,
            duration_ns: { sum: 89_600, p50: 38_656, p90: 51_200, p99: 51_200, max: 51_200 },
          },
        ],
        total: {
          count: 7,
          error_count: 1,
          bytes: 8320,
          duration_ns: { sum: 485_299_200, p50: 64_256, p90: 242_221_056, p99: 242_221_056, max: 242_304_000 },
        },
        coverage: LOST,
      },
    },
  },
  listTransactions: {
    answers: { 'application/json': { transactions: [TRANSACTION], next_cursor: null, coverage: LOST } },
  },
  getTransaction: { answers: { 'application/json': { ...TRANSACTION, coverage: WHOLE } } },
  getTransactionSummary: {
    answers: {
      'application/json': {
        transaction: TRANSACTION,
        calls: { count: 4, error_count: 1, bytes: 8256, duration_ns: 242_457_600 },
        requests: { count: 2, error_count: 0, bytes: 0, ambiguous_count: 0, ambiguous_bytes: 0 },
        slowest: [SYNC],
        files: [
          {
            file: '/srv/db/wal/0001',
            count: 2,
            error_count: 0,
            bytes: 8192,
            duration_ns: 242_368_000,
            sync_count: 1,
            sync_duration_ns: 242_304_000,
          },
        ],
        file_count: 2,
        coverage: WHOLE,
      },
    },
  },
  pinTransaction: { body: { before_ms: 60_000 }, answers: { 'application/json': { ...PINNED, nodes: [NODE] } } },
  listPins: { answers: { 'application/json': { pins: [{ ...PINNED, node: NODE }] } } },
  listEventTypes: {
    answers: {
      'application/json': {
        event_types: [
          { name: 'sys_write', description: 'one call of the write family, from entry to return' },
          { name: 'block_io', description: 'one block request, from its queueing to its completion' },
        ],
      },
    },
  },
  listServices: { answers: { 'application/json': { services: ['db', 'kernel', 'shop'] } } },
  listNodes: { answers: { 'application/json': { nodes: [NODE] } } },
};

function buildColumnExample(coverage: object): string {
  return [LINE, { coverage }].map((line) => `${stringify(line)}\n`).join('');
}
