/**
 * Tests clients that stop reading from a server with little room: the slowest is closed to make room, one that reads is
 * not. The tests wait most of their time, and each has a server of its own.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type LimitedConnections, limitConnections } from '../../../../daemon/http/access/connections.ts';
import { createUnsent, type Unsent } from '../../../../daemon/http/access/unsent.ts';
import { newFolder } from '../../recorded.ts';

const STALLED_MS = 2500;
const LARGE_BYTES = 64 * 1024 * 1024;
const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';
const answerLarge: RequestListener = (_req, res) => void res.end(Buffer.alloc(LARGE_BYTES));

const servers: Server[] = [];
const sockets: Socket[] = [];
afterAll(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

interface Small {
  unsent: Unsent;
  connections: LimitedConnections;
  closed: string[];
  /** Opens a client that sends a request and reads nothing. */
  ask(text?: string): Promise<Socket>;
  /** Opens a client that reads this many bytes at a time, and no more, until it is let go. */
  trickle(bytes: number, everyMs: number): Promise<{ socket: Socket; letGo(): void }>;
}

interface Options {
  answer?: RequestListener;
  connectionsMax?: number;
  keptMax?: number;
  bytesMax?: number;
  takenBytesMin?: number;
  path?: string;
  giveBack?: () => void;
}

async function small({ answer = answerLarge, path, connectionsMax = 2, keptMax = 0, ...options }: Options = {}) {
  const closed: string[] = [];
  const unsent = createUnsent({ stalledMs: STALLED_MS, onClosed: () => closed.push('not_read'), ...options });
  const server = createServer(answer);
  servers.push(server);
  const onClosed = (reason: string) => void closed.push(reason);
  const connections = limitConnections(server, { connectionsMax, perClientMax: 2, keptMax, unsent, onClosed });
  server.listen(path ? { path } : { host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  const place = path ? { path } : { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
  const opened = async (socket: Socket, text: string) => {
    sockets.push(socket.on('error', () => {}));
    await once(socket, 'connect');
    socket.write(text);
    return socket;
  };
  return {
    unsent,
    connections,
    closed,
    ask: (text = GET) => opened(connect(place), text),
    async trickle(bytes, everyMs) {
      let isFree = false;
      const onread = { buffer: Buffer.alloc(bytes), callback: () => isFree };
      const socket = await opened(connect({ ...place, onread }), GET);
      const timer = setInterval(() => socket.resume(), everyMs);
      socket.once('close', () => clearInterval(timer));
      const letGo = () => {
        isFree = true;
      };
      return { socket, letGo };
    },
  } satisfies Small;
}

/**
 * Waits until a client may be closed for having read too little, plus a check of all others; a busy machine needs
 * longer.
 */
async function oneStalls(unsent: Unsent): Promise<void> {
  await sleep(STALLED_MS + 1000);
  while (!unsent.findStalled()) await sleep(100);
  await sleep(1000);
}

/** Reads this many bytes 20 times a second. */
function readAtPace(socket: Socket, bytes: number): void {
  const timer = setInterval(() => socket.read(bytes), 50);
  socket.once('close', () => clearInterval(timer));
}

test.concurrent('the client that reads nothing is closed to make room, and the slow one stays', async () => {
  const { unsent, closed, ask } = await small();
  const slow = await ask();
  // It connects first: by age it would be closed first.
  readAtPace(slow, 400_000);
  const stalled = await ask();
  await sleep(500);
  expect(unsent.bytes).toBeGreaterThan(0);
  // No client has been stalled for long enough, so the new one is turned away.
  await once((await ask()).resume(), 'close');
  expect(closed).toEqual(['turned_away']);
  await oneStalls(unsent);
  const served = await ask();
  await once(served, 'readable');
  expect(closed).toEqual(['turned_away', 'not_read']);
  await once(stalled.resume(), 'close');
  expect(slow.closed).toBe(false);
}, 30_000);

test.concurrent('a client that reads a little occasionally is closed after those that read nothing', async () => {
  const { unsent, closed, ask, trickle } = await small({ connectionsMax: 3, takenBytesMin: 512 * 1024 });
  const reading = await ask();
  readAtPace(reading, 200_000);
  // It reads 60 KB a second, which the server's kernel learns in steps of 64 KB.
  const little = await trickle(6_000, 100);
  const stalled = await ask();
  await oneStalls(unsent);
  await once(await ask(), 'readable');
  await once(stalled.resume(), 'close');
  expect([little.socket.closed, closed]).toEqual([false, ['not_read']]);
  await once(await ask(), 'readable');
  little.letGo();
  await once(little.socket, 'close');
  expect(closed).toEqual(['not_read', 'not_read']);
  await once((await ask()).resume(), 'close');
  expect([reading.closed, closed]).toEqual([false, ['not_read', 'not_read', 'turned_away']]);
}, 30_000);

test.concurrent('a slow reader of a Unix socket stays', async () => {
  const path = join(newFolder(), 'socket');
  const { unsent, trickle } = await small({ path, takenBytesMin: 8 * 1024 });
  // At 20 KB a second, the data that the kernel holds lasts for ten seconds.
  await trickle(2_000, 100);
  for (let seconds = 0; seconds < 8; seconds++) {
    await sleep(1000);
    expect(unsent.findStalled()).toBeUndefined();
  }
}, 30_000);

test.concurrent('answers queued after an endless one are closed with their connection', async () => {
  let asked = 0;
  const answer: RequestListener = (_req, res) => {
    if (asked++ === 0) res.flushHeaders();
    else res.end(Buffer.alloc(LARGE_BYTES));
  };
  const { unsent, closed, ask } = await small({ answer, bytesMax: LARGE_BYTES });
  const client = await ask(GET + GET);
  await once(client, 'readable');
  await oneStalls(unsent);
  expect(unsent.bytes).toBeGreaterThanOrEqual(LARGE_BYTES);
  expect(unsent.makeRoom()).toBe(true);
  expect(closed).toEqual(['not_read']);
  await once(client.resume(), 'close');
  expect(unsent.bytes).toBe(0);
}, 30_000);

test.concurrent('the connection for which room was made is served like any other', async () => {
  const kept: boolean[] = [];
  let isKept = (_req: IncomingMessage) => false;
  const answer: RequestListener = (req, res) => {
    kept.push(isKept(req));
    res.end(Buffer.alloc(LARGE_BYTES));
  };
  const { unsent, connections, closed, ask } = await small({ answer, connectionsMax: 1, keptMax: 1 });
  isKept = connections.isKept;
  await ask();
  await oneStalls(unsent);
  await once(await ask(), 'readable');
  expect([kept, closed]).toEqual([[false, false], ['not_read']]);
  // The room is taken again and no connection may be closed: one more is kept for requests that are always answered,
  // and the next is turned away.
  await once(await ask(), 'readable');
  await once((await ask()).resume(), 'close');
  expect([kept, closed]).toEqual([
    [false, false, true],
    ['not_read', 'turned_away'],
  ]);
}, 30_000);

test.concurrent('memory is released while a stream is open', async () => {
  let given = 0;
  let asked = 0;
  const answer: RequestListener = (req, res) => {
    if (asked++ === 0) res.flushHeaders();
    else answerLarge(req, res as never);
  };
  const { ask } = await small({ answer, giveBack: () => given++ });
  const stream = await ask();
  await once(stream, 'readable');
  const large = await ask();
  await sleep(3000);
  expect(given).toBe(0);
  large.destroy();
  await sleep(5000);
  expect(given).toBe(1);
  expect(stream.closed).toBe(false);
}, 30_000);
