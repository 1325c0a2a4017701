/** Tests what a daemon answers while a shard is away: what the others have, and that it is not everything. */

import { readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatTime } from '../../../../daemon/base/time_text.ts';
import { endServers } from '../../../clickhouse/server.ts';
import { times } from '../../../repeats.ts';
import { start } from '../../command_line.ts';
import { samplesOf, valuesOf } from '../../metrics/scraped.ts';
import { newFolder, START } from '../../recorded.ts';
import { type FleetDaemon, MINUTE, reachedAgain, startDaemon, startTwoShards, type TwoShards } from './two_shards.ts';

let shards: TwoShards;
let daemon: FleetDaemon;
const state = join(newFolder(), 'state');

beforeAll(async () => {
  shards = await startTwoShards();
  daemon = await startDaemon(shards, '--state', state);
}, 120_000);
afterAll(async () => {
  await daemon?.stop();
  await endServers();
});

const WINDOW = `from=${START}&to=${START + 3n * MINUTE}`;
/** Each answer with a coverage. */
const ANSWERS = [
  `/api/events?${WINDOW}&limit=1000`,
  `/api/events?${WINDOW}&limit=5&sort=slowest`,
  `/api/transactions?${WINDOW}`,
  `/api/stats?${WINDOW}`,
  `/api/heatmap?${WINDOW}`,
  `/api/heatmap?of=events&${WINDOW}`,
  `/api/differences?of=events&from=${START}&to=${START + MINUTE}&window_from=${START}&window_to=${START + 3n * MINUTE}`,
  '/api/transactions/order-1',
  '/api/transactions/order-1/summary',
  '/api/transactions/order-1/explain',
];
const NODE_A = `/api/events?node=node-a&${WINDOW}`;

interface Streamed {
  status: number | undefined;
  lines: string[];
  complete: string | undefined;
}

async function ndjson(path: string): Promise<Streamed> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    httpGet(`${daemon.url}${path}`, { headers: { accept: 'application/x-ndjson' } }, resolve).on('error', reject);
  });
  const lines = Buffer.concat(await answer.toArray())
    .toString()
    .split('\n')
    .filter(Boolean);
  return { status: answer.statusCode, lines, complete: answer.trailers['kreplay-complete'] };
}

const metric = async (name: string) => valuesOf(samplesOf(await (await fetch(`${daemon.url}/metrics`)).text()), name);

/** A cursor has the time at which it was made. */
const without = ({ next_cursor: _, ...json }: Record<string, unknown>) => json;

/** The gaps over the window, without times. */
const unavailable = (gaps: { cause: string; node: string | null }[]) =>
  gaps.filter(({ cause }) => cause === 'unavailable').map(({ node }) => node);

/** Changes what accounts may do. A server looks at its files every two seconds, and compares whole seconds. */
function changeUsers(change: (text: string) => string): void {
  const path = join(shards.near.folder, 'users.xml');
  const later = statSync(path).mtimeMs / 1000 + 2;
  writeFileSync(path, change(readFileSync(path, 'utf8')));
  utimesSync(path, later, later);
}

describe('while a shard is away', () => {
  const whole = new Map<string, unknown>();
  test('answers have what the others have, and say that its nodes are missing', async () => {
    for (const path of ANSWERS) {
      const { status, json } = await daemon.get(path);
      expect({ path, status, complete: json.coverage?.complete }).toEqual({ path, status: 200, complete: true });
      whole.set(path, without(json));
    }
    const names = await Promise.all(['/api/nodes', '/api/services'].map(daemon.get));
    const ready = await daemon.get('/readyz');
    expect(ready).toMatchObject({ status: 200, json: { fleet: { nodes: { current: 0, silent: 0, ended: 2 } } } });
    expect(await metric('kreplay_fleet_unavailable_shards')).toEqual([0]);
    const streamed = await ndjson(`/api/events?${WINDOW}`);
    expect([streamed.lines.length, streamed.complete]).toEqual([60, 'true']);
    await shards.far.kill();
    for (const path of ANSWERS) {
      const { status, json } = await daemon.get(path);
      expect({ path, status, complete: json.coverage?.complete }).toEqual({ path, status: 200, complete: false });
      expect(unavailable(json.coverage.losses)).toEqual(['node-b']);
      expect(without(json)).not.toEqual(whole.get(path));
    }
    const { json: page } = await daemon.get(ANSWERS[0]!);
    expect(page.events).toHaveLength(30);
    const [gap] = page.coverage.losses.filter(({ node }: { node: string }) => node === 'node-b');
    const text = await (await fetch(`${daemon.url}${ANSWERS[0]}&coverage=full`)).text();
    expect(gap).toMatchObject({ lost: 0, cause: 'unavailable', node: 'node-b' });
    expect(text).toContain(
      `"to":${START + 3n * MINUTE},"to_time":"${formatTime(START + 3n * MINUTE)}","lost":0,"cause":"unavailable"`,
    );
    const half = await ndjson(`/api/events?${WINDOW}`);
    expect([half.lines.length, half.complete]).toEqual([30, 'false']);
    expect((await daemon.get('/api/nodes')).json).toEqual({ ...names[0]!.json, complete: false });
    expect((await daemon.get('/api/services')).json).toEqual({ services: ['shop'], complete: false });
  });

  test('a query of nodes of the other shards is complete, one of nodes of that shard is not', async () => {
    expect((await daemon.get(NODE_A)).json.coverage).toMatchObject({ complete: true, losses: [] });
    const { json } = await daemon.get(`/api/events?node=node-b&${WINDOW}`);
    expect(json).toMatchObject({ events: [], coverage: { complete: false, recorded_until: null } });
    expect(json.coverage.losses).toMatchObject([{ cause: 'unavailable', node: 'node-b' }]);
    // Nodes that nobody knows yet may be there too.
    const excluded = await daemon.get(`/api/events?exclude_node=node-b&${WINDOW}`);
    expect(excluded.json.coverage).toMatchObject({ complete: false, losses: [{ cause: 'unavailable', node: null }] });
  });

  test('what cannot say that it is not everything is refused', async () => {
    const id = (whole.get(ANSWERS[0]!) as { events: { event_id: string; node: string }[] }).events;
    const idOn = (node: string) => id.find((event) => event.node === node)!.event_id;
    expect((await daemon.get(`/api/events/${idOn('node-a')}`)).status).toBe(200);
    expect((await daemon.get(`/api/events/${idOn('node-b')}`)).status).toBe(503);
    expect((await daemon.get('/api/transactions/node-b-2')).status).toBe(503);
    expect((await daemon.get('/api/pins')).status).toBe(503);
    expect((await daemon.post('/api/transactions/order-1/pin', {})).status).toBe(503);
    expect((await daemon.post('/api/replay/whatif', { transaction_id: 'order-1' })).status).toBe(503);
    expect((await daemon.post('/api/replay/whatif', { where: {} })).status).toBe(503);
    expect((await daemon.post('/api/replay/sessions', { transaction_id: 'order-1' })).status).toBe(503);
    const tail = await fetch(`${daemon.url}/api/events`, { headers: { accept: 'text/event-stream' } });
    expect(tail.status).toBe(503);
  });

  test('makes the daemon of a fleet unready, and is counted', async () => {
    expect(await daemon.get('/readyz')).toMatchObject({ status: 503, json: { code: 'recording_unavailable' } });
    expect(await metric('kreplay_fleet_unavailable_shards')).toEqual([1]);
    expect([await metric('kreplay_ready'), await metric('kreplay_fleet_nodes')]).toEqual([[0], []]);
    // The rows of the first server are still known.
    expect(await metric('kreplay_fleet_parts_max')).toHaveLength(1);
  });

  test('a daemon that begins then says that it does not know what is missing', async () => {
    const late = await startDaemon(shards);
    const { json } = await late.get(ANSWERS[0]!);
    expect(json.events).toHaveLength(30);
    expect(json.coverage).toMatchObject({ complete: false, losses: [{ cause: 'unavailable', node: null }] });
    expect((await late.get(NODE_A)).json.coverage.complete).toBe(false);
    await late.stop();
  });

  test('a daemon that has known the nodes before names them, and those of the others are complete', async () => {
    await daemon.stop();
    daemon = await startDaemon(shards, '--state', state);
    const { json } = await daemon.get(ANSWERS[0]!);
    expect(json.coverage).toMatchObject({ complete: false, losses: [{ cause: 'unavailable', node: 'node-b' }] });
    expect((await daemon.get(NODE_A)).json.coverage.complete).toBe(true);
  });

  test('an account that may send no settings gets no answer, and advice', async () => {
    const folder = newFolder();
    const passwordFile = join(folder, 'reader');
    writeFileSync(passwordFile, 'reader', { mode: 0o600 });
    const reading = await startDaemon(shards, '--fleet-user', 'reader', '--fleet-password-file', passwordFile);
    const { status, json } = await reading.get(ANSWERS[0]!);
    expect(status).toBe(503);
    expect(json.detail).toMatch(/no replica of a shard answers .*skip_unavailable_shards.*readonly = 2/s);
    changeUsers((text) => text.replace('<readonly>1<', '<readonly>2<'));
    for (let tries = 0; (await reading.get(ANSWERS[0]!)).status !== 200; tries++) {
      expect(tries).toBeLessThan(200);
      await sleep(50);
    }
    expect((await reading.get(ANSWERS[0]!)).json.coverage.complete).toBe(false);
    await reading.stop();
  });

  test('an account whose answers would silently lack shards is refused', async () => {
    const leavingOut = '<default><skip_unavailable_shards>1</skip_unavailable_shards></default>';
    changeUsers((text) => text.replace('<default/>', leavingOut));
    const count = () => shards.near.sql('SELECT count() FROM kreplay.node_all');
    while (
      await count().then(
        () => false,
        () => true,
      )
    )
      await sleep(50);
    const { code, stderr } = await start('daemon', '--no-state', '--fleet-url', shards.near.url).ended;
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('has skip_unavailable_shards') });
    changeUsers((text) => text.replace(leavingOut, '<default/>'));
    while (
      await count().then(
        () => true,
        () => false,
      )
    )
      await sleep(50);
  });

  test('a page that was begun then goes on when the shard is back, and answers are complete within seconds', async () => {
    const { json: first } = await daemon.get(`/api/events?${WINDOW}&limit=10`);
    expect(first.coverage.complete).toBe(false);
    await shards.far.restart();
    await reachedAgain(shards);
    expect(await daemon.completeAgain(ANSWERS[0]!)).toBeLessThan(5000);
    for (const path of ANSWERS) expect(without((await daemon.get(path)).json)).toEqual(whole.get(path));
    const { json: rest } = await daemon.get(`/api/events?${WINDOW}&limit=10&cursor=${first.next_cursor}`);
    expect([rest.events.length, rest.coverage.complete]).toEqual([10, true]);
    expect((await daemon.get('/api/nodes')).json).toEqual({ nodes: ['node-a', 'node-b'] });
  }, 60_000);
});

describe('a shard that comes and goes', () => {
  test('leaves no answer that is silently less', async () => {
    const whole = new Map<string, unknown>();
    for (const path of ANSWERS) whole.set(path, without((await daemon.get(path)).json));
    let goesOn = true;
    let ups = 0;
    const flapping = (async () => {
      while (goesOn) {
        await shards.far.kill();
        await sleep(200);
        await shards.far.restart();
        ups++;
        await sleep(500);
      }
    })();
    const seen = { whole: 0, incomplete: 0, refused: 0 };
    for (let i = 0; i < times(40) || ups < times(2); i++) {
      const path = ANSWERS[i % ANSWERS.length]!;
      const { status, json } = await daemon.get(path);
      if (status !== 200) {
        expect({ path, status }).toEqual({ path, status: 503 });
        seen.refused++;
      } else if (json.coverage.complete) {
        expect(without(json)).toEqual(whole.get(path));
        seen.whole++;
      } else seen.incomplete++;
      await sleep(20);
    }
    goesOn = false;
    await flapping;
    expect(seen.incomplete).toBeGreaterThan(0);
    await reachedAgain(shards);
    await daemon.completeAgain(ANSWERS[0]!);
    for (const path of ANSWERS) expect(without((await daemon.get(path)).json)).toEqual(whole.get(path));
  }, 180_000);
});
