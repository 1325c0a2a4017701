/** Tests that a backlog of millions of events is shipped in little memory. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockOf } from '../agent/recording/fixture.ts';
import { type ClickHouseServer, endServers, isInstalled } from '../clickhouse/server.ts';
import { newFolder, START } from '../daemon/recorded.ts';
import { countAt } from './centre.ts';
import { emptyFleet, startFleet, stateOf } from './fleet.ts';
import { liveWriter } from './load.ts';

const withServer = isInstalled ? describe : describe.skip;
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
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

withServer('a backlog', () => {
  test.each([
    ['two million events of few transactions', 120, 490, (number: number) => number % 64],
    ['half a million events of a transaction each', 150, 120, (number: number) => number],
  ])(
    'of %s arrives with less than %i MB',
    async (_, megabytes, segments, transactionOf) => {
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
