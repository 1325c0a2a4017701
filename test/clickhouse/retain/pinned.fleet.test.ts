/** Tests a daemon over a fleet: a transaction of two nodes is pinned, outlives its hours, is replayed, and goes. */

import { start } from '../../daemon/command_line.ts';
import { recordedOn } from '../../daemon/recorded.ts';
import { ORDER_START, order, SECOND } from '../../daemon/store/fleet/two_nodes.ts';
import { startFleet } from '../../ship/fleet.ts';
import { shipHere } from '../../ship/here.ts';
import { type ClickHouseServer, endServers } from '../server.ts';
import { fillFleet, retainHere } from './old_fleet.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
  await fillFleet(server);
});
afterAll(endServers);

describe('a daemon over a fleet', () => {
  test('keeps a pinned transaction, with what comes late for it, until it is unpinned', async () => {
    const daemon = start('daemon', '--fleet-url', server.url, '--listen', '127.0.0.1:0', '--no-state');
    try {
      const url = /serving .* at (http:\S+)\n/.exec(await daemon.printed(/serving .*\n/))![1];
      const ask = async (path: string, init?: RequestInit) => {
        const answer = await fetch(`${url}${path}`, init);
        const text = await answer.text();
        return { status: answer.status, json: text === '' ? undefined : JSON.parse(text) };
      };
      const post = (path: string, body: object) => {
        const headers = { 'content-type': 'application/json' };
        return ask(path, { method: 'POST', headers, body: JSON.stringify(body) });
      };
      const eventsOf = async () => (await ask('/api/events?transaction_id=order-1&limit=1000')).json;
      const found = await ask('/api/transactions?service=pay');
      expect(found.json.transactions).toMatchObject([{ transaction_id: 'order-1', event_count: 15, pinned: false }]);
      const pinned = await post('/api/transactions/order-1/pin', { before_ms: 60_000 });
      expect(pinned).toMatchObject({ status: 200, json: { transaction_id: 'order-1', nodes: ['node-a', 'node-b'] } });
      const replayed = await post('/api/replay/whatif', { transaction_id: 'order-1' });
      expect(replayed.status).toBe(200);
      const before = await eventsOf();

      const late = order('b', 4, ORDER_START + 100n * SECOND);
      await shipHere(recordedOn('node-c', late), server.url);
      expect(await retainHere(server, 3n)).toMatchObject([{ hours: 3, pins: 1 }]);
      const after = await eventsOf();
      expect(after.events.slice(0, 15)).toEqual(before.events);
      expect(after.events).toHaveLength(19);
      expect(after.coverage).toMatchObject({ complete: false });
      expect(after.coverage.losses.map(({ cause }: { cause: string }) => cause)).toContain('retention');
      expect((await ask('/api/transactions/order-1')).json).toMatchObject({ event_count: 19, pinned: true });
      expect((await ask('/api/transactions/a-0')).status).toBe(404);
      expect((await ask('/api/pins')).json.pins.map(({ node }: { node: string }) => node)).toEqual([
        'node-a',
        'node-b',
        'node-c',
      ]);
      const curve = await post('/api/replay/whatif', { transaction_id: 'order-1' });
      expect(curve.status).toBe(200);
      expect(curve.json).not.toEqual(replayed.json);
      const session = await post('/api/replay/sessions', { transaction_id: 'order-1' });
      expect(session.status).toBe(201);

      expect((await ask('/api/transactions/order-1/pin', { method: 'DELETE' })).status).toBe(204);
      expect((await ask('/api/transactions/order-1')).status).toBe(404);
      expect((await eventsOf()).events).toEqual([]);
    } finally {
      daemon.child.kill('SIGTERM');
      await daemon.ended;
    }
  }, 180_000);
});
