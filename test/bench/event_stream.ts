/**
 * Generates the events of a synthetic host, the same ones at every call: forty concurrent threads of four services
 * carry out transactions of a hundred events each. A tenth are block requests, a hundredth take long, a thousandth
 * belong to one rare process, and twenty of all events take half a minute.
 */
import type { RecordingWriter } from '../../agent/recording/write/writer.ts';
import { type Block, createBlock } from '../../bpf/schema/block.ts';
import { BLOCK_OPERATIONS, blockIo } from '../../bpf/schema/block_io.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../bpf/schema/owner.ts';
import { sysWrite, WRITE_SYSCALLS } from '../../bpf/schema/sys_write.ts';
import { setWords, streamColumns } from './stream_columns.ts';

/** Its low word is 0: a timestamp consists of the words of the time since the start, plus this high word. */
const START_HIGH = 0x1879_b3d7;
export const START_NS = BigInt(START_HIGH) << 32n;

const BLOCK_ROWS = 4096;
export const TRANSACTION_EVENTS = 100;
const THREADS = 40;
const SERVICES = ['shop', 'pay', 'stock', 'mail'];
const FILES = 40;
/** On two CPUs, events that end at nearly the same time arrive in any order. */
const JITTER_NS = 20_000;

/** Share of a thread's events with an owner; the others have none. */
const OWNED_SHARE = 0.85;
const BLOCK_IO_SHARE = 0.1;
const FAILED_SHARE = 0.01;
const ENOSPC = 28;

const LONG_SHARE = 0.01;
const LONG_NS_MAX = 50e6;
const RARE_SHARE = 0.001;
/** A pid that no event has. */
export const ABSENT_PID = 9998;

/** Filters that each match about four events in every segment of 4096. */
export const RARE = { pid: 9999, service: 'audit', minDurationNs: 45_000_000n } as const;

/** So long that a segment with one of these events extends far into the time range of others. */
export const SLOWEST_NS = 30e9;
export const SLOWEST_EVENTS = 20;

/** The last transactions may be incomplete. */
const UNFINISHED_TRANSACTIONS_MAX = 100;

export interface EventStreamOptions {
  events: number;
  eventsPerSecond: number;
  dictionary: Pick<RecordingWriter, 'nameId' | 'fileId' | 'contextId'>;
}

export interface EventStream {
  /** Fills at most BLOCK_ROWS rows of a block that is reused; undefined at the end. */
  next(rowsMax: number): Block | undefined;
  /** Number of complete transactions so far: `transactionName(0)` and on. */
  readonly transactions: number;
}

export function transactionName(number: number): string {
  return `order-${number}`;
}

/** Nanoseconds from START_NS to the event's end; its start is its duration earlier. */
export function endOf(event: number, eventsPerSecond: number): number {
  return Math.floor((event * 1e9) / eventsPerSecond);
}

export function eventStream({ events, eventsPerSecond, dictionary }: EventStreamOptions): EventStream {
  const random = randomNumbers();
  const threads = threadsOf(dictionary, random);
  const block = createBlock(BLOCK_ROWS);
  const fill = rowFiller(block, threads, dictionary, random);
  const slowest = slowestOf(events, eventsPerSecond);
  let made = 0;
  return {
    next(rowsMax) {
      const count = Math.min(rowsMax, BLOCK_ROWS, events - made);
      if (count === 0) return undefined;
      block.rowCount = count;
      block.typeCounts.fill(0);
      for (let row = 0; row < count; row++, made++) {
        const end = endOf(made, eventsPerSecond) + Math.floor(random() * JITTER_NS);
        fill(row, end, slowest.has(made) ? SLOWEST_NS : 0);
      }
      return block;
    },
    get transactions() {
      return Math.max(0, threads.transactions - UNFINISHED_TRANSACTIONS_MAX);
    },
  };
}

/** Numbers of the slowest events, evenly spread; none of them starts before START_NS. */
function slowestOf(events: number, eventsPerSecond: number): Set<number> {
  const first = Math.ceil((SLOWEST_NS / 1e9) * eventsPerSecond);
  const step = Math.floor((events - first) / SLOWEST_EVENTS);
  return new Set(Array.from({ length: SLOWEST_EVENTS }, (_, i) => first + i * step));
}

interface Threads {
  /** Number of transactions begun so far. */
  readonly transactions: number;
  /** The context of a thread's next event. */
  nextContext(thread: number): number;
}

function threadsOf({ contextId }: EventStreamOptions['dictionary'], random: () => number): Threads {
  const contexts = new Uint32Array(THREADS);
  const eventsLeft = new Uint32Array(THREADS);
  const hex = (words: number) =>
    Array.from({ length: words }, () => (random() * 2 ** 32).toString(16).padStart(8, '0')).join('');
  let transactions = 0;
  return {
    get transactions() {
      return transactions;
    },
    nextContext(thread) {
      if (random() >= OWNED_SHARE) return 0;
      if (eventsLeft[thread] === 0) {
        eventsLeft[thread] = TRANSACTION_EVENTS;
        const transactionId = transactionName(transactions++);
        contexts[thread] = contextId({ transactionId, traceId: hex(4), spanId: hex(2) });
      }
      eventsLeft[thread]!--;
      return contexts[thread]!;
    },
  };
}

/** Returns a function that fills a row; a `durationNs` of 0 stands for a random one. */
function rowFiller(
  block: Block,
  threads: Threads,
  dictionary: EventStreamOptions['dictionary'],
  random: () => number,
): (row: number, endNs: number, durationNs: number) => void {
  const to = streamColumns(block);
  const services = SERVICES.map((name) => dictionary.nameId(name));
  const rare = dictionary.nameId(RARE.service);
  const device = dictionary.nameId('vda');
  const files = Array.from({ length: FILES }, (_, i) => dictionary.fileId(`/var/lib/app/${i}.log`, 'regular'));
  const exact = ATTRIBUTION_QUALITIES.indexOf('exact');
  const marker = ATTRIBUTION_SOURCES.indexOf('marker');
  const below = (limit: number) => Math.floor(random() * limit);

  return (row, endNs, durationNs) => {
    const isRare = random() < RARE_SHARE;
    const isBlockIo = !isRare && random() < BLOCK_IO_SHARE;
    const thread = below(THREADS);
    const group = thread % SERVICES.length;
    const context = isRare ? 0 : threads.nextContext(thread);
    const service = isRare ? rare : services[group]!;
    const duration = durationNs || ordinaryDuration(isBlockIo);
    const bytes = isBlockIo ? 4096 << below(4) : 64 << below(6);

    to.type[row] = isBlockIo ? blockIo.id : sysWrite.id;
    to.cpu[row] = below(2);
    setWords(to.timestamp, row, endNs - duration);
    to.timestamp[row * 2 + 1]! += START_HIGH;
    setWords(to.duration, row, duration);
    to.context[row] = context;
    to.source[row] = context === 0 ? 0 : marker;
    to.quality[row] = context === 0 ? 0 : exact;
    to.service[row] = service;
    to.pid[row] = isRare ? RARE.pid : 4000 + group * 13;
    to.tid[row] = isRare ? RARE.pid : 4000 + group * 13 + Math.floor(thread / SERVICES.length);
    to.comm[row] = service;
    setWords(to.result, row, random() < FAILED_SHARE ? -ENOSPC : bytes);
    if (isBlockIo) fillBlockIo(block.typeCounts[blockIo.id]!++, bytes, service, context);
    else fillSysWrite(block.typeCounts[sysWrite.id]!++, bytes);
  };

  function ordinaryDuration(isBlockIo: boolean): number {
    if (isBlockIo) return 80_000 + below(4e6);
    return random() < LONG_SHARE ? below(LONG_NS_MAX) : 400 + below(9000);
  }

  function fillSysWrite(place: number, bytes: number): void {
    const file = below(FILES);
    to.file[place] = files[file]!;
    setWords(to.bytesRequested, place, bytes);
    to.fd[place] = 3 + file;
    to.syscall[place] = random() < 0.8 ? WRITE_SYSCALLS.write : WRITE_SYSCALLS.pwrite64;
  }

  function fillBlockIo(place: number, bytes: number, service: number, context: number): void {
    setWords(to.sector, place, below(1e9));
    setWords(to.bytes, place, bytes);
    setWords(to.queue, place, below(20_000));
    to.operation[place] = BLOCK_OPERATIONS.write;
    to.device[place] = device;
    to.originService[place] = service;
    to.originContext[place] = context;
    setWords(to.originBytes, place, bytes);
  }
}

/** The same sequence at every call, each number from 0 to 1. Its period is longer than any stream. */
function randomNumbers(): () => number {
  let state = 7;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
