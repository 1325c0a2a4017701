/** Tests requests as transactions: whatever their headers contain, from the middleware to the end of the response. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, request as httpRequest, IncomingMessage, ServerResponse } from 'node:http';
import { connect, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import fc from 'fast-check';
import request from 'supertest';
import { parseMarker } from '../../../agent/attribution/marker.ts';
import { expressMiddleware, formatRequestMarker, koaMiddleware, runRequest } from '../../../agent/mark/mark.ts';
import { createTransactions, type Transactions } from '../../../agent/mark/transactions.ts';
import { times } from '../../repeats.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`;
const HEADER = 'x-transaction-id';
/** Longest id that fits into a marker. */
const LONGEST = 'a'.repeat(1023 - 'KREPLAY1 txn=\n'.length);

describe('headers', () => {
  test.each<[string, Record<string, string>, string | undefined]>([
    ['nothing', {}, undefined],
    ['an id', { [HEADER]: 'order-8812' }, 'txn=order-8812'],
    ['a trace', { traceparent: TRACEPARENT }, `trace=${TRACE}`],
    ['both', { [HEADER]: 'order-8812', traceparent: TRACEPARENT }, `txn=order-8812 trace=${TRACE}`],
    ['an empty id', { [HEADER]: '' }, undefined],
    ['an id with blanks and signs', { [HEADER]: 'a b%20=\tc' }, 'txn=a%20b%2520=%09c'],
    ['an id that would be more fields', { [HEADER]: 'a svc=shop' }, 'txn=a%20svc=shop'],
    ['an id that would end', { [HEADER]: 'a\nKREPLAY1 end' }, 'txn=a%0AKREPLAY1%20end'],
    ['an id beyond ASCII', { [HEADER]: 'Größe' }, 'txn=Größe'],
    ['the longest id', { [HEADER]: LONGEST }, `txn=${LONGEST}`],
    ['a longer one', { [HEADER]: `${LONGEST}a` }, undefined],
    ['one that is longer when escaped', { [HEADER]: ' '.repeat(400) }, undefined],
    ['one that is too long, and a trace', { [HEADER]: LONGEST, traceparent: TRACEPARENT }, `trace=${TRACE}`],
    ['a trace in upper case', { traceparent: TRACEPARENT.toUpperCase() }, undefined],
    ['a trace that is all zero', { traceparent: `00-${'0'.repeat(32)}-00f067aa0ba902b7-01` }, undefined],
    ['a trace of the forbidden version', { traceparent: TRACEPARENT.replace('00', 'ff') }, undefined],
    ['two traces', { traceparent: `${TRACEPARENT}, ${TRACEPARENT}` }, undefined],
    ['a trace that would be another field', { traceparent: `x trace=${TRACE}` }, undefined],
    ['a malformed trace, and an id', { [HEADER]: 'a', traceparent: 'nonsense' }, 'txn=a'],
  ])('%s', (_, headers, fields) => {
    expect(formatRequestMarker(headers, HEADER)).toBe(fields && `KREPLAY1 ${fields}\n`);
  });

  test('an id that no address can have is ignored, and the trace is kept', () => {
    for (const id of ['.', '..']) {
      expect(formatRequestMarker({ [HEADER]: id }, HEADER)).toBeUndefined();
      expect(formatRequestMarker({ [HEADER]: id, traceparent: TRACEPARENT }, HEADER)).toMatch(/^KREPLAY1 trace=\w+\n$/);
    }
    expect(formatRequestMarker({ [HEADER]: '...' }, HEADER)).toBe('KREPLAY1 txn=...\n');
  });

  test('arbitrary headers give a marker of one write or none, and no fields but these', () => {
    const value = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 1200 }),
      fc.string({ minLength: 300, maxLength: 500 }),
      fc.constantFrom(TRACEPARENT, 'KREPLAY1 end', ' svc=shop', '\ud800'),
    );
    fc.assert(
      fc.property(fc.option(value), fc.option(value), (id, traceparent) => {
        const line = formatRequestMarker(
          { ...(id !== null && { [HEADER]: id }), ...(traceparent !== null && { traceparent }) },
          HEADER,
        );
        if (line === undefined) return;
        expect(Buffer.byteLength(line)).toBeLessThanOrEqual(1023);
        expect(line.indexOf('\n')).toBe(line.length - 1);
        const marker = parseMarker(line)!;
        expect(marker).toMatchObject({ service: null, spanId: null, badFields: 0 });
        if (marker.transactionId !== null) expect(marker.transactionId).toBe(id);
      }),
      { numRuns: times(150) },
    );
  });
});

let lines: string[];
let transactions: Transactions;
const told = () => parseMarker(lines.at(-1) ?? 'KREPLAY1 end')!.transactionId;

beforeEach(() => {
  lines = [];
  transactions = createTransactions((line) => lines.push(line) > 0);
});

/** An Express server that checks its current transaction at every step of a request. */
function application() {
  const seen: Record<string, (string | null)[]> = {};
  const app = express();
  app.use((req, res, next) => {
    runRequest(transactions, HEADER, req, res, next);
  });
  app.use(express.json());
  app.post('/', async (req, res) => {
    const looks = [told()];
    seen[(req.body as { name: string }).name] = looks;
    const look = () => looks.push(told());
    await null;
    look();
    await sleep(2);
    look();
    await readFile(import.meta.filename);
    look();
    setImmediate(look);
    res.once('finish', look);
    await sleep(2);
    res.json({});
    look();
  });
  return { app, seen };
}

test.each([1, 2, 16])('every step of a request belongs to that request, with %i at a time', async (concurrency) => {
  const { app, seen } = application();
  const server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  for (let round = 0; round < 5; round++) {
    await Promise.all(
      Array.from({ length: concurrency }, async (_, i) => {
        const name = `r${round}-${i}`;
        const post = request(server).post('/');
        await ((i + round) % 3 === 2 ? post : post.set(HEADER, name)).send({ name }).expect(200);
      }),
    );
  }
  expect(Object.keys(seen)).toHaveLength(5 * concurrency);
  const wrong = Object.entries(seen).filter(([name, looks]) => {
    const [, round, i] = /r(\d+)-(\d+)/.exec(name)!.map(Number);
    const owner = (round! + i!) % 3 === 2 ? null : name;
    return looks.length !== 7 || looks.some((look) => look !== owner);
  });
  expect(wrong).toEqual([]);
  server.close();
  await once(server, 'close');
  expect(told()).toBeNull();
});

test('consecutive and concurrent requests on one connection are separate transactions', async () => {
  const seen: [string, string | null][] = [];
  const server = createServer((req, res) => {
    runRequest(transactions, HEADER, req, res, () => {
      seen.push([req.url!, told()]);
      setTimeout(() => {
        seen.push([req.url!, told()]);
        res.end('text');
      }, 3);
    });
    seen.push(['behind', told()]);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as { port: number }).port, '127.0.0.1');
  const ask = (id: string) => `GET /${id} HTTP/1.1\r\nHost: x\r\n${id === 'none' ? '' : `${HEADER}: ${id}\r\n`}\r\n`;
  let answers = 0;
  socket.on('data', (data) => {
    answers += data.toString().split('HTTP/1.1 200').length - 1;
  });
  socket.write(['a', 'none', 'b'].map(ask).join(''));
  while (answers < 3) await sleep(2);
  socket.write(ask('none'));
  while (answers < 4) await sleep(2);
  socket.destroy();
  server.close();
  const expected = (url: string) => (url === '/a' || url === '/b' ? url.slice(1) : null);
  expect(seen).toHaveLength(12);
  expect(seen.filter(([url, owner]) => owner !== expected(url))).toEqual([]);
});

test('an aborted request ends its transaction', async () => {
  const looks: (string | null)[] = [];
  let goesOn = () => {};
  const handled = new Promise<void>((done) => {
    goesOn = done;
  });
  const server = createServer((req, res) => {
    void runRequest(transactions, HEADER, req, res, async () => {
      client.destroy();
      looks.push(told());
      await once(res, 'close');
      await null;
      looks.push(told());
      // A handler that starts only after the disconnect still runs, without a transaction.
      const later = runRequest(transactions, HEADER, req, res, async () => {
        looks.push(told());
        await null;
        looks.push(told());
      });
      looks.push(told());
      await later;
      goesOn();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const client = httpRequest({ port, host: '127.0.0.1', headers: { [HEADER]: 'a' } }).on('error', () => {});
  client.end();
  await handled;
  server.close();
  expect(looks).toEqual(['a', null, 'a', null, null]);
});

describe('middleware', () => {
  const exchange = (headers: Record<string, string>) => {
    const req = new IncomingMessage(new Socket());
    Object.assign(req.headers, headers);
    return { req, res: new ServerResponse(req) };
  };

  test.each([{}, { [HEADER]: 'a' }, { [HEADER]: 'a'.repeat(2000) }, { traceparent: TRACEPARENT }])(
    'the next handler is called once and without an error: %p',
    (headers) => {
      const { req, res } = exchange(headers);
      const calls: unknown[][] = [];
      expressMiddleware()(req, res, (...args: unknown[]) => void calls.push(args));
      expect(calls).toEqual([[]]);
      res.emit('close');
    },
  );

  test('exceptions and results of the next handler are passed on', async () => {
    const { req, res } = exchange({ 'x-order': 'a' });
    const error = new Error('expected');
    const fail = () => {
      throw error;
    };
    expect(() => expressMiddleware({ header: 'X-Order' })(req, res, fail)).toThrow(error);
    expect(await koaMiddleware({ header: 'X-Order' })({ req, res }, async () => 7)).toBe(7);
    await expect(koaMiddleware()({ req, res }, async () => fail())).rejects.toBe(error);
    res.emit('close');
    expect(res.listenerCount('close')).toBe(0);
  });

  test('the types of the middleware fit Express and Koa', () => {
    express().use(expressMiddleware());
    type KoaMiddleware = (
      context: { req: IncomingMessage; res: ServerResponse; body: unknown },
      next: () => Promise<unknown>,
    ) => unknown;
    const koa: KoaMiddleware = koaMiddleware();
    expect(koa).toHaveLength(2);
  });
});
