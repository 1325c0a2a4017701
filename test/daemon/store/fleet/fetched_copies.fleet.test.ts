/** Tests what is done with copies of a fleet's transactions: clock offsets of nodes that a copy lacks, and exports. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { type ClickHouseServer, endServers } from '../../../clickhouse/server.ts';
import { startFleet } from '../../../ship/fleet.ts';
import { shipHere } from '../../../ship/here.ts';
import { type Running, start, startWith } from '../../command_line.ts';
import { newFolder, type Row, recordedOn, START } from '../../recorded.ts';

let server: ClickHouseServer;
let daemon: Running;
let url: string;

const rowsOf = (transaction: string, count: number): Row[] =>
  Array.from({ length: count }, (_, i) => ({ at: START + BigInt(i) * 1_000_000n, transaction, file: `/srv/${i}` }));

beforeAll(async () => {
  server = await startFleet();
  const folders = [
    recordedOn('node-a', rowsOf('order-1', 7)),
    recordedOn('node/b', rowsOf('order-1', 3)),
    recordedOn('node-c', rowsOf('order-2', 2)),
  ];
  await Promise.all(folders.map((folder) => shipHere(folder, server.url)));
  daemon = start('daemon', '--listen', '127.0.0.1:0', '--no-state', '--fleet-url', server.url);
  [, url = ''] = / at (http:\S+)\n$/.exec(await daemon.printed(/ at http:\S+\n$/)) ?? [];
}, 60_000);
afterAll(async () => {
  daemon?.child.kill('SIGTERM');
  await daemon?.ended;
  await endServers();
});

async function whatIf(body: object) {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${url}/api/replay/whatif`, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: answer.status, json: await answer.json() };
}

describe('a copy of a transaction', () => {
  test('takes no offset of a node that it has no events of, and a node that no event is of is refused', async () => {
    const offsets = { 'node-a': 1000, 'node-c': 5000 };
    const { status, json } = await whatIf({ transaction_id: 'order-1', clock_offsets_ns: offsets });
    expect(status).toBe(200);
    expect(json.clock.map(({ node, offset_ns }: { node: string; offset_ns: number }) => [node, offset_ns])).toEqual([
      ['node-a', 1000],
      ['node/b', 0],
    ]);
    const curves = await whatIf({ where: {}, clock_offsets_ns: offsets });
    expect([curves.status, curves.json.transactions.length]).toEqual([200, 2]);
    const refused = await whatIf({ transaction_id: 'order-1', clock_offsets_ns: { nowhere: 1 } });
    expect(refused).toMatchObject({ status: 400, json: { errors: [{ pointer: '/clock_offsets_ns/nowhere' }] } });
  });

  test('is made once for many that ask at the same time, also if the first of them goes away', async () => {
    const gone = new AbortController();
    const body = JSON.stringify({ transaction_id: 'order-2' });
    const request = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    const first = fetch(`${url}/api/replay/whatif`, { ...request, signal: gone.signal }).catch(() => undefined);
    const others = Array.from({ length: 5 }, () => whatIf({ transaction_id: 'order-2' }));
    gone.abort();
    await first;
    for (const { status, json } of await Promise.all(others)) expect([status, json.event_count]).toEqual([200, 2]);
  });

  test('is exported as a file for each node', async () => {
    const folder = newFolder();
    const output = join(folder, 'incident.kreplay');
    const env = { KREPLAY_DAEMON_FLEET_URL: server.url };
    const exported = (...args: string[]) => startWith(env, 'export', '--fleet', ...args).ended;
    const both = await exported('--transaction', 'order-1', '--output', output);
    expect(both).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(folder).sort()).toEqual(['incident-node-a.kreplay', 'incident-node_b.kreplay']);
    for (const [name, count] of [
      ['incident-node-a.kreplay', 7],
      ['incident-node_b.kreplay', 3],
    ] as const) {
      const recordings = openRecordingStore(undefined, [join(folder, name)]);
      const blocks = [...recordings.scan({ filter: {}, order: 'asc' })];
      expect(blocks.reduce((sum, { block }) => sum + block.rowCount, 0)).toBe(count);
      recordings.close();
    }
    expect(await exported('--transaction', 'order-2', '--output', output)).toMatchObject({ code: 0 });
    expect(readdirSync(folder)).toContain('incident.kreplay');
    expect(await exported('--transaction', 'order-3', '--output', output)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no transaction order-3'),
    });
    expect((await exported('--from', '-15m', '--output', output)).code).toBe(2);
    expect(await start('export', '--fleet', '--transaction', 'order-1', '--output', output).ended).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('fleet-url'),
    });
  });
});
