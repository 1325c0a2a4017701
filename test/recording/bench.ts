/** Cost and size on data like a busy host's: `node test/recording/bench.ts [events] [events a flush]`. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openReader } from '../../agent/recording/reader.ts';
import type { RecordingWriter } from '../../agent/recording/writer.ts';
import { type Block, newBlock } from '../../bpf/schema/block.ts';
import { START_NS, temporaryFolder, testWriter } from './fixture.ts';

const [events = 1_000_000, flushEvents = 1000, eventsPerSecond = 10_000] = process.argv.slice(2).map(Number);
const EVENTS_OF_TRANSACTION = 100;

const folder = temporaryFolder();
const path = join(folder.path, 'recording.kreplay');
const clock = { nowNs: START_NS };
const writer = testWriter(path, clock);
const random = lcg(7);

let transaction = 0;
const contexts: number[] = [];
let appendNs = 0n;
let flushNs = 0n;
const written0 = bytesWritten();
for (let done = 0; done < events; done += flushEvents) {
  const block = makeBlock(done, Math.min(flushEvents, events - done), writer);
  clock.nowNs += BigInt(Math.round((flushEvents / eventsPerSecond) * 1e9));
  const t0 = process.hrtime.bigint();
  writer.append(block);
  const t1 = process.hrtime.bigint();
  writer.flush();
  appendNs += t1 - t0;
  flushNs += process.hrtime.bigint() - t1;
}
const t0 = process.hrtime.bigint();
writer.close();
const closeNs = process.hrtime.bigint() - t0;
const written = bytesWritten() - written0;
const fileBytes = statSync(path).size;

report('append', appendNs);
report('flush and seal', flushNs);
console.log(`close ${Number(closeNs) / 1e6} ms`);
console.log(`${(fileBytes / events).toFixed(1)} bytes an event in the file`);
console.log(`${(written / fileBytes).toFixed(2)} bytes written to the disk for each of the file's`);
console.log(
  `${(((written / events) * eventsPerSecond) / 1000).toFixed(0)} KB/s written at ${eventsPerSecond} events/s`,
);

const reader = openReader(path);
const database = reader.info();
console.log(`${database.eventCount} events`);
const all = timed(() => count(reader.scan({})));
report(`scan, all columns (${all.result})`, all.ns);
report(`scan, descending`, timed(() => count(reader.scan({ order: 'desc' }))).ns);
report(`scan, two columns`, timed(() => count(reader.scan({ columns: ['pid'] }))).ns);
report(`scan for a pid that is not there`, timed(() => count(reader.scan({ filter: { pid: 99 } }))).ns);
const id = `transaction-${Math.floor(transaction / 2)}`;
const one = timed(() => count(reader.scan({ filter: { transactionId: id } })));
console.log(`one transaction of ${one.result} events: ${Number(one.ns) / 1e6} ms`);
const again = timed(() =>
  count(reader.scan({ filter: { transactionId: `transaction-${Math.floor(transaction / 3)}` } })),
);
console.log(`another: ${Number(again.ns) / 1e6} ms`);
const middle = (database.firstTimestampNs! + database.lastTimestampNs!) / 2n;
const page = timed(() => count(reader.scan({ filter: { fromNs: middle }, limit: 1000 })));
console.log(`a page of ${page.result} from the middle: ${Number(page.ns) / 1e6} ms`);
reader.close();
folder.remove();

function makeBlock(first: number, count: number, writer: RecordingWriter): Block {
  const block = newBlock(count);
  const column = (name: string) => block.columns.get(name)! as unknown as { [row: number]: number | bigint };
  const names = ['shop', 'pay', 'stock', 'mail'].map((name) => writer.nameId(name));
  const device = writer.nameId('vda');
  for (let row = 0; row < count; row++) {
    const i = first + row;
    if (i % EVENTS_OF_TRANSACTION === 0) {
      contexts.push(
        writer.contextId({
          transactionId: `transaction-${transaction++}`,
          traceId: hex(32),
          spanId: hex(16),
        }),
      );
    }
    const isBlock = random() < 0.1;
    const duration = isBlock ? 80_000 + random() * 4e6 : random() < 0.01 ? random() * 5e7 : 400 + random() * 9000;
    const end = Number((BigInt(i) * 1_000_000_000n) / BigInt(eventsPerSecond)) + random() * 20_000;
    const context = contexts[Math.max(0, contexts.length - 1 - Math.floor(random() * 8))]!;
    const service = Math.floor(random() * 4);
    column('event_type')[row] = isBlock ? 2 : 1;
    column('cpu')[row] = Math.floor(random() * 2);
    column('timestamp_ns')[row] = START_NS + BigInt(Math.floor(end - duration));
    column('duration_ns')[row] = BigInt(Math.floor(duration));
    column('context')[row] = random() < 0.7 ? context : 0;
    column('context_source')[row] = 1;
    column('context_quality')[row] = 1;
    column('service')[row] = names[service]!;
    column('pid')[row] = 4000 + service * 13;
    column('tid')[row] = 4000 + service * 13 + Math.floor(random() * 6);
    column('comm')[row] = names[service]!;
    column('result')[row] = BigInt(random() < 0.01 ? -28 : 64 << Math.floor(random() * 6));
    const place = block.typeCounts[isBlock ? 2 : 1]!++;
    if (isBlock) {
      column('block_io.sector')[place] = BigInt(Math.floor(random() * 1e9));
      column('block_io.bytes')[place] = BigInt(4096 << Math.floor(random() * 4));
      column('block_io.queue_ns')[place] = BigInt(Math.floor(random() * 20_000));
      column('block_io.operation')[place] = 1;
      column('block_io.device')[place] = device;
      column('block_io.origins_0_service')[place] = names[service]!;
      column('block_io.origins_0_context')[place] = context;
      column('block_io.origins_0_bytes')[place] = 4096n;
    } else {
      column('sys_write.file')[place] = writer.fileId(`/var/lib/app/${Math.floor(random() * 40)}.log`, 'regular');
      column('sys_write.bytes_requested')[place] = BigInt(64 << Math.floor(random() * 6));
      column('sys_write.fd')[place] = 3 + Math.floor(random() * 30);
      column('sys_write.syscall')[place] = random() < 0.8 ? 1 : 18;
    }
  }
  block.rowCount = count;
  return block;
}

function hex(digits: number): string {
  let text = '';
  while (text.length < digits) text += Math.floor(random() * 16).toString(16);
  return text;
}

function lcg(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function count(blocks: Iterable<Block>): number {
  let rows = 0;
  for (const block of blocks) rows += block.rowCount;
  return rows;
}

function timed<T>(work: () => T): { result: T; ns: bigint } {
  const start = process.hrtime.bigint();
  const result = work();
  return { result, ns: process.hrtime.bigint() - start };
}

function report(what: string, ns: bigint): void {
  console.log(`${(Number(ns) / events).toFixed(0)} ns an event: ${what}`);
}

/** write() calls of this process, page cache or not. */
function bytesWritten(): number {
  const io = readFileSync('/proc/self/io', 'utf8');
  return Number(/wchar: (\d+)/.exec(io)![1]);
}
