/** Tests that a backlog of millions of events is shipped in little memory. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockOf } from '../agent/recording/fixture.ts';
import { type ClickHouseServer, endServers, isInstalled } from '../clickhouse/server.ts';
import { newFolder, START } from '../daemon/recorded.ts';
import { countAt } from './centre.ts';
import { startFleet, stateOf } from './fleet.ts';
import { liveWriter } from './load.ts';

const withServer = isInstalled ? describe : describe.skip;
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
});
afterAll(endServers);

const SEGMENTS = 490;
const SEGMENT_EVENTS = 4096;
const RSS_MEGABYTES_MAX = 120;
const KREPLAY = join(import.meta.dirname, '../../build/kreplay');

/** A recording of two million events, made of one block again and again. */
function longRecording(): string {
  const folder = newFolder();
  const writer = liveWriter(folder, 4 * 2 ** 30);
  const contexts = Array.from({ length: 64 }, (_, i) =>
    writer.contextId({ transactionId: `order-${i}`, traceId: null, spanId: null }),
  );
  const [service, comm] = [writer.nameId('shop'), writer.nameId('node')];
  const block = blockOf(
    Array.from({ length: SEGMENT_EVENTS }, (_, i) => ({
      duration_ns: i * 7919,
      pid: i,
      service,
      comm,
      context: contexts[i % contexts.length]!,
    })),
  );
  const timestamps = block.columns.get('timestamp_ns')! as BigUint64Array;
  for (let segment = 0; segment < SEGMENTS; segment++) {
    for (let i = 0; i < SEGMENT_EVENTS; i++) timestamps[i] = START + BigInt(segment * SEGMENT_EVENTS + i) * 1000n;
    writer.append(block);
    writer.flush();
  }
  writer.close();
  return folder;
}

function residentMegabytes(pid: number): number {
  const [, kilobytes] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes ?? 0) / 1024;
}

withServer('a backlog of two million events', () => {
  test(`arrives with less than ${RSS_MEGABYTES_MAX} MB`, async () => {
    const folder = longRecording();
    const places = ['--data', folder, '--state', stateOf(folder), '--url', server.url];
    const child = spawn(KREPLAY, ['ship', '--once', ...places], { stdio: ['ignore', 'ignore', 'inherit'] });
    const ended = once(child, 'exit');
    const sizes: number[] = [];
    const timer = setInterval(() => {
      if (child.exitCode === null) sizes.push(residentMegabytes(child.pid!));
    }, 100);
    const [code] = await ended;
    clearInterval(timer);
    expect(code).toBe(0);
    const events = SEGMENTS * SEGMENT_EVENTS;
    const distinct = 'SELECT count(), uniqExact(number), sum(number), sum(duration_ns) FROM kreplay.event FORMAT TSV';
    const durations = (SEGMENTS * 7919 * SEGMENT_EVENTS * (SEGMENT_EVENTS - 1)) / 2;
    const numbers = (events * (events - 1)) / 2;
    expect((await server.sql(distinct)).toString().trim()).toBe([events, events, numbers, durations].join('\t'));
    expect(await countAt(server, 'SELECT sum(n) FROM kreplay.by_id')).toBe(events);
    expect(Math.max(...sizes)).toBeLessThan(RSS_MEGABYTES_MAX);
  }, 240_000);
});
