/**
 * Tests that a backlog is shipped in little memory. The bounds are above what a shipper takes that has one group, and
 * below that and the rows of all events; `make test-long` ships millions.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockOf } from '../agent/recording/fixture.ts';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { newFolder, START } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';
import { countAt } from './centre.ts';
import { emptyFleet, startFleet, stateOf } from './fleet.ts';
import { liveWriter } from './load.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterAll(endServers);

const SEGMENT_EVENTS = 4096;
const KREPLAY = join(import.meta.dirname, '../../build/kreplay');

/** A recording made of one block again and again, in which an event is of its own transaction, or of a few. */
function longRecording(segments: number, transactionOf: (number: number) => number): string {
  const folder = newFolder();
  const writer = liveWriter(folder, 4 * 2 ** 30);
  const contextOf = (number: number) =>
    writer.contextId({ transactionId: `order-${transactionOf(number)}`, traceId: null, spanId: null });
  const [service, comm] = [writer.nameId('shop'), writer.nameId('node')];
  const block = blockOf(
    Array.from({ length: SEGMENT_EVENTS }, (_, i) => ({
      duration_ns: i * 7919,
      pid: i,
      service,
      comm,
    })),
  );
  const contexts = block.columns.get('context')!;
  const timestamps = block.columns.get('timestamp_ns')! as BigUint64Array;
  for (let segment = 0; segment < segments; segment++) {
    for (let i = 0; i < SEGMENT_EVENTS; i++) {
      const number = segment * SEGMENT_EVENTS + i;
      timestamps[i] = START + BigInt(number) * 1000n;
      contexts[i] = contextOf(number);
    }
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

const isLong = times(1) > 1;
const [FEW, FEW_MEGABYTES] = isLong ? [490, 120] : [120, 110];
const [OWN, OWN_MEGABYTES] = isLong ? [120, 150] : [30, 145];

describe('a backlog', () => {
  test.each([
    [FEW, 'of few transactions', FEW_MEGABYTES, (number: number) => number % 64],
    [OWN, 'of a transaction each', OWN_MEGABYTES, (number: number) => number],
  ])(
    'of %i segments with events %s arrives with less than %i MB',
    async (segments, _, megabytes, transactionOf) => {
      await emptyFleet(server);
      const folder = longRecording(segments, transactionOf);
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
      const events = segments * SEGMENT_EVENTS;
      const distinct = 'SELECT count(), uniqExact(number), sum(number), sum(duration_ns) FROM kreplay.event FORMAT TSV';
      const durations = (segments * 7919 * SEGMENT_EVENTS * (SEGMENT_EVENTS - 1)) / 2;
      const numbers = (events * (events - 1)) / 2;
      expect((await server.sql(distinct)).toString().trim()).toBe([events, events, numbers, durations].join('\t'));
      expect(await countAt(server, 'SELECT sum(n) FROM kreplay.by_id')).toBe(events);
      expect(Math.max(...sizes)).toBeLessThan(megabytes);
    },
    240_000,
  );
});
