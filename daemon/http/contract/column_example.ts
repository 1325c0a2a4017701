/** The events of a transaction as lines of columns, for the API's document. */
import { stringify } from '../../base/exact_json.ts';
import { NODE, RECORDING } from './recorded_examples.ts';

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

export function columnExample(coverage: object): string {
  return [LINE, { coverage }].map((line) => `${stringify(line)}\n`).join('');
}
