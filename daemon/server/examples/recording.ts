/** Writes the recording from which the examples in the API's document are made. */
import { openWriter, type RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { type Block, createBlock } from '../../../bpf/schema/block.ts';
import { BLOCK_OPERATIONS } from '../../../bpf/schema/block_io.ts';
import { EVENTS, type EventType } from '../../../bpf/schema/index.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { SYNC_SYSCALLS } from '../../../bpf/schema/sys_sync.ts';
import { WRITE_SYSCALLS } from '../../../bpf/schema/sys_write.ts';

const SECOND_NS = 1_000_000_000n;
/** Time at which the recording ends. The clock of the example daemon shows this time. */
export const EXAMPLE_NOW_NS = 1_763_683_200_000_000_000n;

/** Origin of the recording. The id of a recording is usually random, but here it is the same in each run. */
const RECORDED_BY = { recordingId: '0921b26466a244d1', node: 'web-1', bootId: 'boot', machineId: 'machine' };

/** The transaction that the examples describe, and its first event. Event 0 belongs to an earlier transaction. */
export const TRANSACTION_ID = 'order-1';
export const FIRST_EVENT_ID = `${RECORDED_BY.recordingId}-0000000000000001`;

/**
 * Unit of all times. A browser reads the examples' integers as doubles. At this magnitude, doubles are 256 ns apart, so
 * every time is a multiple of 256 ns.
 */
const UNIT_NS = 12_800n;
const ORDER_NS = EXAMPLE_NOW_NS - 60n * SECOND_NS;

const MARKER = ATTRIBUTION_SOURCES.indexOf('marker');
const ORIGIN = ATTRIBUTION_SOURCES.indexOf('origin');
const EXACT = ATTRIBUTION_QUALITIES.indexOf('exact');

interface ExampleTimes {
  /** Start, relative to the start of the order, in units of `UNIT_NS`. */
  at: bigint;
  /** Duration in units of `UNIT_NS`. */
  lasts: bigint;
}

/** Maps column names, without the event type, to values. */
type ExampleRow = Readonly<Record<string, number | bigint>>;

/**
 * Appends an order and its write-back to disk. The order's commit waits long for the disk, and its last write to the
 * log fails because the disk is full.
 */
function appendOrder(block: Block, writer: RecordingWriter): void {
  const { nameId, fileId, contextId } = writer;
  const earlier = contextId({ transactionId: 'order-0', traceId: null, spanId: null });
  const order = contextId({
    transactionId: TRANSACTION_ID,
    traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    spanId: '00f067aa0ba902b7',
  });
  const marked = { context: order, context_source: MARKER, context_quality: EXACT };
  const shop = { ...marked, service: nameId('shop'), pid: 4711, tid: 4711, comm: nameId('node'), cpu: 0 };
  const db = { ...marked, service: nameId('db'), pid: 812, tid: 815, comm: nameId('postgres'), cpu: 1 };
  const worker = { service: nameId('kernel'), pid: 97, tid: 97, comm: nameId('kworker/u8:1'), cpu: 1 };
  const kernel = { ...marked, ...worker, context_source: ORIGIN };
  const log = { file: fileId('/var/log/shop/orders.log', 'regular'), fd: 19, syscall: WRITE_SYSCALLS.write };
  const wal = { file: fileId('/srv/db/wal/0001', 'regular'), fd: 7 };
  const disk = { operation: BLOCK_OPERATIONS.write, device: nameId('sda') };

  const add = (type: EventType, { at, lasts }: ExampleTimes, common: ExampleRow, own: ExampleRow) => {
    const times = { timestamp_ns: ORDER_NS + at * UNIT_NS, duration_ns: lasts * UNIT_NS };
    appendRow(block, type, { ...common, ...times }, own);
  };
  const addWrite = (times: ExampleTimes, common: ExampleRow, own: ExampleRow) => add('sys_write', times, common, own);
  const addRequest = (times: ExampleTimes, common: ExampleRow, own: ExampleRow) => add('block_io', times, common, own);

  const sent = { result: 64n };
  addWrite({ at: -80_000n, lasts: 2n }, { ...shop, ...sent, context: earlier }, { ...log, bytes_requested: 64n });
  addWrite({ at: 0n, lasts: 3n }, { ...shop, ...sent }, { ...log, bytes_requested: 64n });
  addWrite(
    { at: 160n, lasts: 5n },
    { ...db, result: 8192n },
    { ...wal, bytes_requested: 8192n, syscall: WRITE_SYSCALLS.pwrite64 },
  );
  addRequest(
    { at: 180n, lasts: 18_900n },
    { ...db, result: 0n },
    {
      ...disk,
      sector: 1_056_768n,
      bytes: 8192n,
      queue_ns: 150n * UNIT_NS,
      queued_by_service: db.service,
      queued_by_context: order,
      origins_0_service: db.service,
      origins_0_context: order,
      origins_0_bytes: 8192n,
    },
  );
  add('sys_sync', { at: 170n, lasts: 18_930n }, { ...db, result: 0n }, { ...wal, syscall: SYNC_SYSCALLS.fdatasync });
  addWrite({ at: 19_300n, lasts: 4n }, { ...shop, result: -28n }, { ...log, bytes_requested: 96n });
  addRequest(
    { at: 400_000n, lasts: 70n },
    { ...kernel, result: 0n },
    {
      ...disk,
      sector: 2_113_536n,
      bytes: 4096n,
      queue_ns: 12n * UNIT_NS,
      queued_by_service: kernel.service,
      queued_by_context: 0,
      origins_0_service: shop.service,
      origins_0_context: order,
      origins_0_bytes: 64n,
    },
  );
}

/** Appends a row. Columns that are not given are zero. */
function appendRow(block: Block, type: EventType, common: ExampleRow, own: ExampleRow): void {
  const { id } = EVENTS.find(({ name }) => name === type)!;
  const set = (name: string, place: number, value: number | bigint) => {
    const column = block.columns.get(name)!;
    if (column instanceof BigUint64Array || column instanceof BigInt64Array) column[place] = BigInt(value);
    else column[place] = Number(value);
  };
  set('event_type', block.rowCount, id);
  for (const [name, value] of Object.entries(common)) set(name, block.rowCount, value);
  for (const [name, value] of Object.entries(own)) set(`${type}.${name}`, block.typeCounts[id]!, value);
  block.rowCount++;
  block.typeCounts[id]!++;
}

/** Writes a recording of one hour. Ten minutes before its end, events were lost. */
export function writeExampleRecording(path: string): void {
  let nowNs = EXAMPLE_NOW_NS - 3600n * SECOND_NS;
  // The recording has a retention limit, because agents do not record without one.
  const writer = openWriter({ path, ...RECORDED_BY, retention: { bytes: 1 << 30 }, nowNs: () => nowNs });
  nowNs = EXAMPLE_NOW_NS;
  const block = createBlock(16);
  appendOrder(block, writer);
  writer.append(block);
  writer.flush();
  writer.recordLoss({
    cause: 'ring_full',
    eventType: 'sys_write',
    count: 12,
    fromNs: EXAMPLE_NOW_NS - 600n * SECOND_NS,
    toNs: EXAMPLE_NOW_NS - 599n * SECOND_NS,
  });
  writer.close();
}
