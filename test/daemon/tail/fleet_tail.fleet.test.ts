/** Tests a live tail over HTTP from a daemon that serves a fleet, and that it goes on at the next daemon. */
import { get, type IncomingMessage } from 'node:http';
import { type ClickHouseServer, endServers } from '../../clickhouse/server.ts';
import { startFleet } from '../../ship/fleet.ts';
import { shipHere } from '../../ship/here.ts';
import { start } from '../command_line.ts';
import { type Row, recordedOn } from '../recorded.ts';
import { tailOf } from './tailed.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterAll(endServers);

async function startDaemon() {
  // All is recorded and sent within the lag, also on a busy machine.
  const fleet = ['--fleet-url', server.url, '--tail-lag', '5s'];
  const daemon = start('daemon', ...fleet, '--listen', '127.0.0.1:0', '--no-state');
  const url = /serving .* at (http:\S+)\n/.exec(await daemon.printed(/serving .*\n/))![1]!;
  return {
    async tail(headers: Record<string, string> = {}) {
      const res = await new Promise<IncomingMessage>((resolve, reject) => {
        const sent = { headers: { accept: 'text/event-stream', ...headers } };
        get(`${url}/api/events?service=shop`, sent, resolve).on('error', reject);
      });
      return tailOf(res);
    },
    async end() {
      daemon.child.kill('SIGTERM');
      return daemon.ended;
    },
  };
}

/** Sends events that begin so many seconds ago. */
async function send(node: string, ...secondsAgo: number[]): Promise<void> {
  const now = BigInt(Date.now()) * 1_000_000n;
  const rows = secondsAgo.map((ago): Row => ({ at: now - BigInt(Math.round(ago * 1e9)), comm: `ago-${ago}` }));
  await shipHere(recordedOn(node, rows), server.url);
}

describe('a live tail of a fleet', () => {
  test('gives what is sent while it is open, and goes on at the next daemon', async () => {
    await send('node-a', 600);
    let daemon = await startDaemon();
    let tail = await daemon.tail();
    await send('node-a', 0.5, 0);
    await send('node-b', 400);
    const frames = await tail.until((all) => all.filter(({ event }) => event === 'event').length === 3);
    const events = frames.filter(({ event }) => event === 'event');
    expect(events.map(({ data }) => [data.comm, data.late]).sort()).toEqual([
      ['ago-0', undefined],
      ['ago-0.5', undefined],
      ['ago-400', true],
    ]);
    const last = frames.at(-1)!.id!;
    await tail.leave();
    expect(await daemon.end()).toMatchObject({ code: 0 });
    await send('node-a', 0.25);
    await send('node-b', 300);
    daemon = await startDaemon();
    tail = await daemon.tail({ 'last-event-id': last });
    await tail.until((all) => ['ago-0.25', 'ago-300'].every((comm) => all.some(({ data }) => data.comm === comm)));
    await tail.leave();
    await daemon.end();
  }, 60_000);
});
