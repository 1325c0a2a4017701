/** Records the transaction of the examples in the API's document. */
import { openWriter } from '../../agent/recording/write/writer.ts';
import { appendRows, newFolder, type Row, recordingPath, START } from './recorded.ts';

/**
 * Every time is a whole multiple of 256 ns, the distance between two doubles of that size: a browser, which reads
 * integers as doubles, shows the examples.
 */
const UNIT = 12_800n;
const SECOND = 1_000_000_000n;
const at = (units: bigint) => START - 60n * SECOND + units * UNIT;
const lasting = (units: bigint) => units * UNIT;

const OF_ORDER = {
  transaction: 'order-1',
  trace: '4bf92f3577b34da6a3ce929d0e0e4736',
  span: '00f067aa0ba902b7',
};
const SHOP = { service: 'shop', pid: 4711, tid: 4711, comm: 'node' };
const DB = { service: 'db', pid: 812, tid: 815, comm: 'postgres', cpu: 1 };
const KERNEL = { service: 'kernel', pid: 97, tid: 97, comm: 'kworker/u8:1', cpu: 1 };
const LOG = { file: '/var/log/shop/orders.log', fd: 19 };
const WAL = { file: '/srv/db/wal/0001', fd: 7 };

/** An order whose commit waits long for its disk, whose last line finds a full one, and which is written back later. */
const ROWS: readonly Row[] = [
  { ...SHOP, ...LOG, at: at(-80_000n), duration: lasting(2n), requested: 64n, transaction: 'order-0' },
  { ...SHOP, ...LOG, ...OF_ORDER, at: at(0n), duration: lasting(3n), requested: 64n },
  {
    ...{ ...DB, ...WAL, ...OF_ORDER, at: at(160n), duration: lasting(5n) },
    ...{ requested: 8192n, result: 8192n, syscall: 'pwrite64' },
  },
  {
    ...{ type: 'block_io', ...DB, ...OF_ORDER, at: at(180n), duration: lasting(18_900n), result: 0n },
    ...{ sector: 1_056_768n, bytes: 8192n, queue: lasting(150n), queuedBy: { service: 'db', ...OF_ORDER } },
    origins: [{ service: 'db', ...OF_ORDER, bytes: 8192n }],
  },
  {
    ...{ type: 'sys_sync', ...DB, ...WAL, ...OF_ORDER, at: at(170n), duration: lasting(18_930n), result: 0n },
    syscall: 'fdatasync',
  },
  { ...SHOP, ...LOG, ...OF_ORDER, at: at(19_300n), duration: lasting(4n), requested: 96n, result: -28n },
  {
    ...{ type: 'block_io', ...KERNEL, ...OF_ORDER, source: 'origin', at: at(400_000n), duration: lasting(70n) },
    ...{ result: 0n, sector: 2_113_536n, bytes: 4096n, queue: lasting(12n), queuedBy: { service: 'kernel' } },
    origins: [{ service: 'shop', ...OF_ORDER, bytes: 64n }],
  },
];

/** Returns the folder of a recording of an hour, which has lost events ten minutes before its end. */
export function exampleRecording(): string {
  const folder = newFolder();
  let nowNs = START - 3600n * SECOND;
  const origin = { node: 'web-1', bootId: 'boot', machineId: 'machine' };
  const writer = openWriter({
    ...{ path: recordingPath(folder), ...origin, retention: { bytes: 1 << 30 } },
    nowNs: () => nowNs,
  });
  nowNs = START;
  appendRows(writer, ROWS);
  writer.recordLoss({
    ...{ cause: 'ring_full', eventType: 'sys_write', count: 12 },
    ...{ fromNs: START - 600n * SECOND, toNs: START - 599n * SECOND },
  });
  writer.close();
  return folder;
}
