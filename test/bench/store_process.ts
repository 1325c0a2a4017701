/**
 * `node store_process.ts SIDE write|copy|read|stream '{"path", ...}'`: measures one store of events, in a process of
 * its own that holds neither memory nor compiled code of another one. Prints one line of JSON.
 */
import { openReader } from '../../agent/recording/read/reader.ts';
import { endOf, eventStream, START_NS } from './event_stream.ts';
import { meteredWriter, type StoreCost } from './metered_writer.ts';
import { read } from './store_reads.ts';
import { SIDES, type SideName } from './store_sides.ts';

export interface WriteRequest {
  path: string;
  events: number;
  eventsPerSecond: number;
  eventsPerFlush: number;
}

export interface WriteCost extends StoreCost {
  /** Number of complete transactions. */
  transactions: number;
}

export interface CopyRequest {
  /** Path of a recording. */
  from: string;
  path: string;
  eventsMax: number;
  eventsPerFlush: number;
}

export interface StreamRequest {
  path: string;
  events: number;
}

export interface StreamCost {
  /** Wall time per event. */
  wallNs: number;
  /** RSS samples in order of time. */
  rssBytes: number[];
}

const RSS_SAMPLE_MS = 50;

function write(side: SideName, { path, eventsPerFlush, ...shape }: WriteRequest): WriteCost {
  let made = 0;
  const nowNs = () => START_NS + BigInt(endOf(made, shape.eventsPerSecond));
  const writer = meteredWriter(side, path, nowNs);
  const stream = eventStream({ ...shape, dictionary: writer.dictionary });
  for (let block = stream.next(eventsPerFlush); block; block = stream.next(eventsPerFlush)) {
    made += block.rowCount;
    writer.add(block);
  }
  return { ...writer.close(), transactions: stream.transactions };
}

/** Writes events of a recording again with the other side. */
function copy(side: 'row_each', { from, path, eventsMax, eventsPerFlush }: CopyRequest): StoreCost {
  const reader = openReader(from);
  const writer = meteredWriter(side, path, () => 0n);
  const contexts = new Set<number>();
  for (const block of reader.scan({ limit: eventsMax, blockRowsMax: eventsPerFlush })) {
    for (const id of (block.columns.get('context')! as Uint32Array).subarray(0, block.rowCount)) {
      if (id === 0 || contexts.has(id)) continue;
      contexts.add(id);
      writer.dictionary.contextId(reader.context(id));
    }
    writer.add(block);
  }
  reader.close();
  return writer.close();
}

function stream(side: SideName, { path, events }: StreamRequest): StreamCost {
  const reads = SIDES[side].openReads(path);
  const rssBytes: number[] = [];
  const startMs = performance.now();
  let sampledMs = startMs;
  let read = 0;
  for (const count of reads.everything()) {
    read += count;
    if (performance.now() - sampledMs < RSS_SAMPLE_MS) continue;
    rssBytes.push(process.memoryUsage.rss());
    sampledMs = performance.now();
  }
  if (read !== events) throw new Error(`${side} gave ${read} of ${events} events`);
  const wallNs = ((performance.now() - startMs) * 1e6) / events;
  reads.close();
  return { wallNs, rssBytes };
}

const ACTIONS = { write, copy, read, stream };

const [side, action, request] = process.argv.slice(2) as [never, keyof typeof ACTIONS, string];
process.stdout.write(`${JSON.stringify(ACTIONS[action](side, JSON.parse(request)))}\n`);
