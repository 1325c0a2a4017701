/** Tests the limits on the cost of queries: slots and time. The test controls the clock. */
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import express from 'express';
import { pino } from 'pino';
import {
  createScanGate,
  KEEPING_MAX,
  KEEPING_WAITING_MAX,
  SMALL_CHUNKS_MAX,
} from '../../../../daemon/http/access/scan_gate.ts';
import { createProblemHandler } from '../../../../daemon/http/problem_handler.ts';
import { close, listen } from '../../../../daemon/server/server.ts';
import { gathered, later } from '../../later.ts';
import { type Row, recorded, START } from '../../recorded.ts';
import { served } from '../../served.ts';

/** More events than the buffers of a connection hold. */
const EVENTS = 60_013;
const ndjson = { accept: 'application/x-ndjson' };

let folder: string;
beforeAll(() => {
  folder = recorded(Array.from({ length: EVENTS }, (_, i): Row => ({ at: START + BigInt(i) })));
});

/** A clock that advances by `step` at each reading. */
function stepping(step: number): () => number {
  let now = 0;
  return () => {
    now += step;
    return now;
  };
}

const gateOf = (step: number) => createScanGate({ queryTimeoutMs: 500, nowMs: stepping(step) });

test('a page that takes too long is refused', async () => {
  const { get } = await served(folder, { scanGate: gateOf(300) });
  const { status, json, headers } = await get('/api/events?limit=10000');
  expect([status, json.code, json.events, headers['retry-after']]).toEqual([503, 'query_timeout', undefined, '2']);
});

test('a page within its time is complete', async () => {
  const { get } = await served(folder, { scanGate: gateOf(1) });
  expect((await get('/api/events?limit=10000')).json.events).toHaveLength(10_000);
});

test('a stream continues while it has something to send', async () => {
  const { lines } = await served(folder, { scanGate: gateOf(300) });
  expect(await lines('/api/events')).toHaveLength(EVENTS);
});

test('a stream that finds nothing for too long is aborted', async () => {
  const { open, get } = await served(folder, { scanGate: gateOf(501) });
  const stream = await open('/api/events', { headers: ndjson });
  expect(stream.statusCode).toBe(200);
  stream.resume();
  const [error] = await once(stream, 'error');
  expect([error.code, stream.complete]).toEqual(['ECONNRESET', false]);
  expect((await get('/healthz')).status).toBe(200);
});

test('a list of transactions that takes too long is refused', async () => {
  const { get } = await served(recorded([{ at: START, transaction: 'tx' }]), { scanGate: gateOf(501) });
  const { status, json, headers } = await get('/api/transactions');
  expect([status, json.code, json.transactions, headers['retry-after']]).toEqual([
    503,
    'query_timeout',
    undefined,
    '2',
  ]);
});

test('the time of a request that waits for other lists counts from its start', async () => {
  let now = 0;
  const gate = createScanGate({ queryTimeoutMs: 500, nowMs: () => now });
  const app = express();
  app.get('/', async (_req, res) => {
    const scan = await gate.enter(res);
    now += 501;
    res.json(await gathered(scan.limitWhole(later([1]))));
  });
  app.use(createProblemHandler(pino({ level: 'silent' })));
  const [server, url] = await listen(app, { host: '127.0.0.1', port: 0 });
  expect((await fetch(url)).status).toBe(503);
  await close(server);
});

describe('turns', () => {
  /** Serves requests that each hold their turn until the test ends them. */
  async function gated(scansMax: number, waitMsMax?: number) {
    const waits = waitMsMax !== undefined && { waitMsMax, keepingWaitMsMax: waitMsMax };
    const gate = createScanGate({ scansMax, nowMs: () => 0, ...waits });
    const running: { name: string; end: () => void }[] = [];
    let count = 0;
    const app = express();
    app.get('/:name', async (req, res) => {
      count++;
      await gate.enter(res, { keepsEvents: req.params.name.startsWith('keeping') });
      running.push({ name: req.params.name, end: () => res.end() });
    });
    app.use(createProblemHandler(pino({ level: 'silent' })));
    const [server, url] = await listen(app, { host: '127.0.0.1', port: 0 });
    const ask = (name: string, signal?: AbortSignal) => fetch(`${url}/${name}`, { signal: signal ?? null });
    const isRunning = async (name: string) => {
      while (!running.some((one) => one.name === name)) await turn();
    };
    const haveArrived = async (wanted: number) => {
      while (count < wanted) await turn();
    };
    return { gate, running, ask, isRunning, haveArrived, end: () => close(server) };
  }

  test('are kept for small answers, however many others hold theirs', async () => {
    const { gate, ask, isRunning, running, end } = await gated(1, 0);
    const { get } = await served(recorded([{ at: START, transaction: 'tx' }]), { scanGate: gate });
    const holder = ask('holder');
    await isRunning('holder');
    const small = ['/api/events?limit=10', '/api/transactions?limit=10', '/api/transactions/tx/summary'];
    const large = ['/api/events', '/api/transactions?limit=1000', '/api/events?limit=10&sort=slowest'];
    const statuses = async (paths: string[]) => Promise.all(paths.map(async (path) => (await get(path)).status));
    // There is one turn for small answers as well.
    for (const path of small) expect(await statuses([path])).toEqual([200]);
    expect(await statuses(large)).toEqual([503, 503, 503]);
    running[0]!.end();
    await holder;
    await end();
  });

  test('of small answers end where these need many chunks', async () => {
    const gate = createScanGate({ scansMax: 1, waitMsMax: 0, nowMs: () => 0 });
    const seen: [name: string, chunks: number][] = [];
    const app = express();
    app.get('/:name', async (req, res) => {
      const isSmall = req.params.name.startsWith('small');
      const scan = await gate.enter(res, { isSmall });
      let chunks = 0;
      const all = later(Array.from({ length: SMALL_CHUNKS_MAX * 2 }, (_, i) => i));
      try {
        for await (const _ of scan.limitWhole(all)) chunks++;
        res.end('done');
      } finally {
        seen.push([req.params.name, chunks]);
      }
    });
    app.get('/', async (_req, res) => void (await gate.enter(res)));
    app.use(createProblemHandler(pino({ level: 'silent' })));
    const [server, url] = await listen(app, { host: '127.0.0.1', port: 0 });
    expect((await fetch(`${url}/small1`)).status).toBe(200);
    const leaving = new AbortController();
    const holder = fetch(url, { signal: leaving.signal }).catch(() => {});
    while ((await fetch(`${url}/large`)).status !== 503);
    expect((await fetch(`${url}/small2`)).status).toBe(503);
    expect(seen.filter(([name]) => name.startsWith('small'))).toEqual([
      ['small1', SMALL_CHUNKS_MAX * 2],
      ['small2', SMALL_CHUNKS_MAX - 1],
    ]);
    leaving.abort();
    await holder;
    await close(server);
  });

  const session = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"transaction_id":"tx"}' };

  test('are needed for every scan, and for nothing else', async () => {
    const { gate, running, ask, isRunning, end } = await gated(1, 0);
    const { get } = await served(recorded([{ at: START, transaction: 'tx' }]), { scanGate: gate });
    const outcomes = async () => {
      const { json } = await get('/api/events');
      const asked: [path: string, sent?: object][] = [
        ['/api/events', { headers: ndjson }],
        ['/api/stats'],
        ['/api/transactions?limit=101'],
        ['/api/heatmap'],
        ['/api/differences'],
        ['/api/replay/sessions', session],
        ['/api/transactions/tx'],
        [`/api/events/${json.events?.[0].event_id ?? 'x'}`],
        ['/api/services'],
        ['/readyz'],
      ];
      const statuses = [];
      for (const [path, sent] of asked) statuses.push((await get(path, sent)).status);
      return statuses;
    };
    expect(await outcomes()).toEqual([200, 200, 200, 200, 200, 201, 200, 200, 200, 200]);
    const holder = ask('holder');
    await isRunning('holder');
    expect(await outcomes()).toEqual([503, 503, 503, 503, 503, 503, 200, 404, 200, 200]);
    const { json, headers } = await get('/api/stats');
    expect([json.code, headers['retry-after']]).toEqual(['busy', '2']);
    running[0]!.end();
    await holder;
    expect((await get('/api/transactions')).status).toBe(200);
    await end();
  });

  test('are granted one after the other', async () => {
    const { running, ask, isRunning, end } = await gated(1, 60_000);
    const first = ask('first');
    await isRunning('first');
    const second = ask('second');
    running[0]!.end();
    await isRunning('second');
    running[1]!.end();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    await end();
  });

  test('are refused after too long a wait, and a refused request does not run', async () => {
    const { running, ask, isRunning, end } = await gated(1, 0);
    const first = ask('first');
    await isRunning('first');
    const refused = await ask('second');
    const { code } = (await refused.json()) as { code: string };
    expect([refused.status, code, refused.headers.get('retry-after')]).toEqual([503, 'busy', '2']);
    running[0]!.end();
    await first;
    const third = ask('third');
    await isRunning('third');
    running[1]!.end();
    expect([(await third).status, running.map(({ name }) => name)]).toEqual([200, ['first', 'third']]);
    await end();
  });

  test('have a bounded queue', async () => {
    const { running, ask, isRunning, end } = await gated(1, 60_000);
    const first = ask('first');
    await isRunning('first');
    const asked = ['a', 'b', 'c', 'd', 'e'].map((name) => ask(name));
    const refused = await Promise.race(asked);
    expect(refused.status).toBe(503);
    for (let i = 0; i < 5; i++) {
      while (running.length <= i) await turn();
      running[i]!.end();
    }
    const statuses = (await Promise.all([first, ...asked])).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 200, 200, 200, 200, 503]);
    await end();
  });

  test('are not granted to clients that have disconnected', async () => {
    const { running, ask, isRunning, end } = await gated(1, 60_000);
    const first = ask('first');
    await isRunning('first');
    const leaving = new AbortController();
    const left = ask('left', leaving.signal);
    const last = ask('last');
    leaving.abort();
    await expect(left).rejects.toThrow();
    running[0]!.end();
    await isRunning('last');
    running.at(-1)!.end();
    expect([(await first).status, (await last).status]).toEqual([200, 200]);
    await end();
  });

  describe('of answers that keep events', () => {
    const names = (count: number) => Array.from({ length: count }, (_, i) => `keeping-${String(i).padStart(2, '0')}`);

    test('are few, and granted in order; the others wait without a turn of a scan', async () => {
      const { running, ask, isRunning, haveArrived, end } = await gated(KEEPING_MAX + 1, 60_000);
      const asked = [];
      for (const name of names(KEEPING_MAX + KEEPING_WAITING_MAX)) {
        // Requests on several connections arrive in any order.
        await haveArrived(asked.push(ask(name)));
      }
      const refused = await ask('keeping-more');
      const { code } = (await refused.json()) as { code: string };
      expect([refused.status, code, refused.headers.get('retry-after')]).toEqual([503, 'busy', '2']);
      const other = ask('other');
      await isRunning('other');
      expect(running).toHaveLength(KEEPING_MAX + 1);
      running.at(-1)!.end();
      expect((await other).status).toBe(200);
      for (let i = 0; i < asked.length; i++) {
        while (running.filter(({ name }) => name !== 'other').length <= i) await turn();
        running.filter(({ name }) => name !== 'other')[i]!.end();
      }
      expect(new Set((await Promise.all(asked)).map(({ status }) => status))).toEqual(new Set([200]));
      expect(running.filter(({ name }) => name !== 'other').map(({ name }) => name)).toEqual(names(asked.length));
      await end();
    });

    test('are given back by clients that leave while they run, and while they wait', async () => {
      const { running, ask, isRunning, haveArrived, end } = await gated(16, 60_000);
      const leaving = new AbortController();
      const left = names(KEEPING_MAX + KEEPING_WAITING_MAX).map((name) => ask(name, leaving.signal));
      await haveArrived(left.length);
      expect((await ask('keeping-more')).status).toBe(503);
      leaving.abort();
      expect(new Set((await Promise.allSettled(left)).map(({ status }) => status))).toEqual(new Set(['rejected']));
      const last = ['keeping-a', 'keeping-b'].map((name) => ask(name));
      for (const name of ['keeping-a', 'keeping-b']) await isRunning(name);
      for (const one of running) one.end();
      expect((await Promise.all(last)).map(({ status }) => status)).toEqual([200, 200]);
      await end();
    });

    test('are needed for comparisons, and to choose transactions by values of their events', async () => {
      const { gate, running, ask, isRunning, end } = await gated(16, 0);
      const { get } = await served(recorded([{ at: START, transaction: 'tx' }]), { scanGate: gate });
      const where = (condition: string) => ({ ...session, body: `{"where":{${condition}}}` });
      const outcomes = async () => {
        const asked: [path: string, sent?: object][] = [
          ['/api/differences'],
          ['/api/differences?of=events'],
          ['/api/heatmap?device=sda'],
          ['/api/transactions?file=/srv/*'],
          ['/api/transactions?exclude_comm=node'],
          ['/api/replay/whatif', where('"event_type":["sys_write"]')],
          ['/api/heatmap?of=events&device=sda'],
          ['/api/heatmap?service=shop'],
          ['/api/transactions?service=shop'],
          ['/api/replay/whatif', where('"service":["shop"]')],
          ['/api/stats'],
        ];
        const statuses = [];
        for (const [path, sent] of asked) statuses.push((await get(path, sent)).status);
        return statuses;
      };
      expect(await outcomes()).toEqual(Array(11).fill(200));
      const holders = names(KEEPING_MAX).map((name) => ask(name));
      for (const name of names(KEEPING_MAX)) await isRunning(name);
      expect(await outcomes()).toEqual([503, 503, 503, 503, 503, 503, 200, 200, 200, 200, 200]);
      for (const one of running) one.end();
      await Promise.all(holders);
      expect(await outcomes()).toEqual(Array(11).fill(200));
      await end();
    });
  });
});

test('readers that do not read take no slots', async () => {
  const gate = createScanGate({ scansMax: 1, nowMs: () => 0, waitMsMax: 60_000 });
  const { open, get } = await served(folder, { scanGate: gate });
  const stuck = [];
  for (let i = 0; i < 3; i++) stuck.push(await open('/api/events', { headers: ndjson }));
  expect((await get('/api/events?limit=1')).status).toBe(200);
  for (const stream of stuck) stream.destroy();
});
