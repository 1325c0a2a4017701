/**
 * A writer in its own process, for tests that kill it or read beside it: `node fixture_writer.ts PATH`. Flushes events
 * without end and says after each flush how many events are safe.
 */
import { writeSync } from 'node:fs';
import { blockOf, type Row, testWriter } from './fixture.ts';

const [path] = process.argv.slice(2);
const clock = { nowNs: BigInt(Date.now()) * 1_000_000n };
const writer = testWriter(path!, clock);
const service = writer.nameId('shop');
let events = 0;

for (let flush = 0; ; flush++) {
  const sizes = [1, 7, 40, 300, 900];
  const count = sizes[flush % sizes.length]!;
  const context = writer.contextId({ transactionId: `${process.pid}-${flush}`, traceId: null, spanId: null });
  const rows: Row[] = Array.from({ length: count }, (_, i) => ({
    event_type: i % 4 === 0 ? 'block_io' : 'sys_write',
    timestamp_ns: clock.nowNs - BigInt((i * 7919) % 20_000),
    // Every flush is whole: a reader that sees one of its rows must see all.
    duration_ns: BigInt(count),
    pid: process.pid,
    tid: flush,
    service,
    context,
  }));
  writer.append(blockOf(rows));
  clock.nowNs += 700_000_000n;
  writer.flush();
  events += count;
  writeSync(1, `${events}\n`);
}
