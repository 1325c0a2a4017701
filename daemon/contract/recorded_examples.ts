/** Events of one transaction, of which the examples in the API's document are made. */

export const NODE = 'web-1';
export const RECORDING = '0921b26466a244d1';
export const SYNC_ID = `${RECORDING}-0000000000000004`;
export const RECORDED_UNTIL_NS = 1_763_683_200_000_000_000n;

const buildOrderFields = (service_name: string, source: string) => ({
  service_name,
  transaction_id: 'order-1',
  trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
  span_id: '00f067aa0ba902b7',
  attribution: { source, quality: 'exact' },
  node: NODE,
});

const BY_SHOP = { ...buildOrderFields('shop', 'marker'), pid: 4711, tid: 4711, comm: 'node', cpu: 0 };
const BY_DB = { ...buildOrderFields('db', 'marker'), pid: 812, tid: 815, comm: 'postgres', cpu: 1 };
const BY_KERNEL = { ...buildOrderFields('kernel', 'origin'), pid: 97, tid: 97, comm: 'kworker/u8:1', cpu: 1 };
const LOG = { file: '/var/log/shop/orders.log', file_kind: 'regular' };
const WAL = { file: '/srv/db/wal/0001', file_kind: 'regular' };

export const FIRST_WRITE = {
  event_id: `${RECORDING}-0000000000000001`,
  event_type: 'sys_write',
  timestamp_ns: 1_763_683_140_000_000_000n,
  duration_ns: 38_400,
  ...BY_SHOP,
  result: 64,
  error: null,
  ...LOG,
  bytes_requested: 64,
  fd: 19,
  syscall: 'write',
};

export const SECOND_WRITE = {
  event_id: `${RECORDING}-0000000000000002`,
  event_type: 'sys_write',
  timestamp_ns: 1_763_683_140_002_048_000n,
  duration_ns: 64_000,
  ...BY_DB,
  result: 8192,
  error: null,
  ...WAL,
  bytes_requested: 8192,
  fd: 7,
  syscall: 'pwrite64',
};

export const SYNC = {
  event_id: SYNC_ID,
  event_type: 'sys_sync',
  timestamp_ns: 1_763_683_140_002_176_000n,
  duration_ns: 242_304_000,
  ...BY_DB,
  result: 0,
  error: null,
  ...WAL,
  fd: 7,
  syscall: 'fdatasync',
};

export const LAST_WRITE = {
  event_id: `${RECORDING}-0000000000000005`,
  event_type: 'sys_write',
  timestamp_ns: 1_763_683_140_247_040_000n,
  duration_ns: 51_200,
  ...BY_SHOP,
  result: -28,
  error: 'ENOSPC',
  ...LOG,
  bytes_requested: 96,
  fd: 19,
  syscall: 'write',
};

export const WRITTEN_BACK = {
  event_id: `${RECORDING}-0000000000000006`,
  event_type: 'block_io',
  timestamp_ns: 1_763_683_145_120_000_000n,
  duration_ns: 896_000,
  ...BY_KERNEL,
  result: 0,
  error: null,
  sector: 2_113_536,
  bytes: 4096,
  queue_ns: 153_600,
  operation: 'write',
  unnamed_bytes: 0,
  device: 'sda',
  queued_by: { service_name: 'kernel', transaction_id: null },
  origins: [{ service_name: 'shop', transaction_id: 'order-1', bytes: 64 }],
};
