/**
 * Makes up the recordings that the web page is measured on. The events are those of a list that other programs are
 * given, too: on each of 24 tracks one event after another, none of which overlaps the next.
 */
import { openWriter, type RecordingWriter } from '../../agent/recording/write/writer.ts';
import { createBlock } from '../../bpf/schema/block.ts';
import { BLOCK_OPERATIONS, blockIo } from '../../bpf/schema/block_io.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../bpf/schema/owner.ts';
import { SYNC_SYSCALLS, sysSync } from '../../bpf/schema/sys_sync.ts';
import { sysWrite, WRITE_SYSCALLS } from '../../bpf/schema/sys_write.ts';
import { type StreamColumns, setWords, streamColumns } from './stream_columns.ts';

export const TRACKS = 24;
const DEVICES = ['nvme0n1', 'nvme1n1'] as const;
/** Tracks of threads; the last ones are of devices. */
const THREADS = TRACKS - DEVICES.length;
const SERVICES = ['shop', 'pay', 'stock', 'mail'] as const;
/** Each track has one event in each slot of this length. */
const SLOT_NS = 1_000_000;
/** A tenth of the transactions of one service ends with an event that is this much longer. */
const SLOW_SLOTS = 40;

/** Its low word is 0, as `setWords` requires. */
const START_HIGH = 0x1879_b3d7;
const START_NS = BigInt(START_HIGH) << 32n;
const BLOCK_ROWS = 4096;
const FIRST_PID = 4000;
const ENOSPC = 28;

export interface PageEvent {
  track: number;
  type: 'sys_write' | 'sys_sync' | 'block_io';
  /** From the start of the recording. */
  startNs: number;
  durationNs: number;
  isFailed: boolean;
}

/** The same events at every call, almost in order of start. */
export function* pageEvents(count: number): Generator<PageEvent> {
  const random = randomNumbers();
  for (let at = 0; at < count; at++) {
    const track = at % TRACKS;
    const slot = Math.floor(at / TRACKS);
    yield {
      track,
      type: track >= THREADS ? 'block_io' : random() < 0.1 ? 'sys_sync' : 'sys_write',
      startNs: slot * SLOT_NS + Math.floor(random() * 0.3 * SLOT_NS),
      durationNs: 400 + Math.floor(random() ** 3 * 0.6 * SLOT_NS),
      isFailed: random() < 0.01,
    };
  }
}

export const trackName = (track: number) => DEVICES[track - THREADS] ?? `${SERVICES[track % SERVICES.length]} ${track}`;

/** Records one transaction with all events. */
export function writeOneTransaction(path: string, transactionId: string, count: number): void {
  write(path, pageEvents(count), (writer) => {
    const context = writer.contextId({ transactionId, traceId: null, spanId: null });
    return () => context;
  });
}

/** Records transactions of some events each, on the tracks of threads and devices alike. */
export function writeTransactions(path: string, transactions: number, eventsOfEach: number): void {
  const written = function* () {
    let at = 0;
    for (const event of pageEvents(transactions * eventsOfEach)) {
      const slot = Math.floor(at++ / TRACKS);
      const isSlow = event.track % SERVICES.length === 2 && slot % (10 * eventsOfEach) === eventsOfEach - 1;
      yield isSlow ? { ...event, durationNs: event.durationNs + SLOW_SLOTS * SLOT_NS } : event;
    }
  };
  write(path, written(), (writer) => {
    const contexts = new Uint32Array(TRACKS);
    const left = new Uint32Array(TRACKS);
    let made = 0;
    return ({ track }) => {
      if (left[track] === 0) {
        left[track] = eventsOfEach;
        contexts[track] = writer.contextId({ transactionId: `order-${made++}`, traceId: null, spanId: null });
      }
      left[track]!--;
      return contexts[track]!;
    };
  });
}

function write(
  path: string,
  events: Iterable<PageEvent>,
  contextsOf: (writer: RecordingWriter) => (event: PageEvent) => number,
): void {
  let nowNs = START_NS;
  const writer = openWriter({ path, node: 'bench', bootId: 'boot', machineId: 'machine', nowNs: () => nowNs });
  const block = createBlock(BLOCK_ROWS);
  const fill = rowFiller(streamColumns(block), writer);
  const contextOf = contextsOf(writer);
  const clear = () => {
    block.rowCount = 0;
    block.typeCounts.fill(0);
  };
  const flush = () => {
    writer.append(block);
    writer.flush();
    clear();
  };
  clear();
  for (const event of events) {
    const { id } = TYPES[event.type];
    fill(block.rowCount++, block.typeCounts[id]!++, event, contextOf(event));
    nowNs = START_NS + BigInt(event.startNs + event.durationNs);
    if (block.rowCount === BLOCK_ROWS) flush();
  }
  if (block.rowCount > 0) flush();
  nowNs += BigInt(SLOW_SLOTS * SLOT_NS);
  writer.close();
}

const TYPES = { sys_write: sysWrite, sys_sync: sysSync, block_io: blockIo } as const;

/** Returns a function that fills a row; `place` is that among the rows of its type. */
function rowFiller(
  to: StreamColumns,
  { nameId, fileId }: RecordingWriter,
): (row: number, place: number, event: PageEvent, context: number) => void {
  const services = SERVICES.map((name) => nameId(name));
  const devices = DEVICES.map((name) => nameId(name));
  const files = SERVICES.map((name) => fileId(`/var/lib/${name}/wal.log`, 'regular'));
  const marker = ATTRIBUTION_SOURCES.indexOf('marker');
  const exact = ATTRIBUTION_QUALITIES.indexOf('exact');
  const bytes = 4096;
  return (row, place, { track, type, startNs, durationNs, isFailed }, context) => {
    const group = track % SERVICES.length;
    to.type[row] = TYPES[type].id;
    setWords(to.timestamp, row, startNs);
    to.timestamp[row * 2 + 1]! += START_HIGH;
    setWords(to.duration, row, durationNs);
    to.context[row] = context;
    to.source[row] = marker;
    to.quality[row] = exact;
    to.service[row] = services[group]!;
    to.pid[row] = FIRST_PID + group;
    to.tid[row] = FIRST_PID + track;
    to.comm[row] = services[group]!;
    setWords(to.result, row, isFailed ? -ENOSPC : type === 'sys_write' ? bytes : 0);
    if (type === 'block_io') {
      setWords(to.sector, place, row);
      setWords(to.bytes, place, bytes);
      setWords(to.queue, place, Math.floor(durationNs / 3));
      to.operation[place] = BLOCK_OPERATIONS.write;
      to.device[place] = devices[track - THREADS]!;
      to.originService[place] = services[group]!;
      to.originContext[place] = context;
      setWords(to.originBytes, place, bytes);
    } else if (type === 'sys_sync') {
      to.syncFile[place] = files[group]!;
      to.syncFd[place] = 3;
      to.syncSyscall[place] = SYNC_SYSCALLS.fsync;
    } else {
      to.file[place] = files[group]!;
      setWords(to.bytesRequested, place, bytes);
      to.fd[place] = 3;
      to.syscall[place] = WRITE_SYSCALLS.write;
    }
  };
}

/** The same sequence at every call, each number from 0 to 1. */
function randomNumbers(): () => number {
  let state = 7;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
