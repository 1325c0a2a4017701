/** Tests clients that hold connections and send nothing, or too little, while another client wants an answer. */
import { EventEmitter, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { type CloseReason, limitConnections } from '../../../../daemon/http/access/connections.ts';
import { recorded, START } from '../../recorded.ts';
import { type Served, serve } from '../../served.ts';

/** More connections than the daemon keeps. */
const CROWD = 1500;
const HALF = 'GET /api/events HTTP/1.1\r\nHost: localhost\r\nX-Slow: ';
const UNFINISHED =
  'POST /api/replay/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{';

let served: Served;
beforeAll(async () => {
  served = await serve(recorded([{ at: START, transaction: 'tx' }]));
});
afterAll(() => served.close());

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

async function open(port: number, text = ''): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  sockets.push(socket);
  await once(socket, 'connect');
  if (text !== '') socket.write(text);
  return socket.resume();
}

test.each([
  ['send nothing', ''],
  ['send half a header', HALF],
  ['send half a body', UNFINISHED],
  ['were answered and stay', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'],
])('many clients that %s keep no other client out', async (_name, text) => {
  for (let sent = 0; sent < CROWD; sent += 100) {
    await Promise.all(Array.from({ length: 100 }, () => open(served.port, text)));
    expect((await served.get('/api/events')).status).toBe(200);
  }
  while (sockets.filter((socket) => !socket.closed).length > 1024) await turn();
  expect((await served.get('/healthz')).status).toBe(200);
});

test('an idle connection is kept for longer than the pools of proxies keep it', async () => {
  const socket = await open(served.port, 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [text] = await once(socket, 'data');
  const [, seconds] = /^keep-alive: timeout=(\d+)\r$/im.exec(String(text))!;
  // nginx takes 60 s, HTTP clients in Go 90 s, Caddy 120 s.
  expect(Number(seconds)).toBeGreaterThan(120);
});

test('a stream is not closed to make room for many idle clients', async () => {
  const headers = { 'content-type': 'application/json' };
  const created = await served.get('/api/replay/sessions', {
    method: 'POST',
    headers,
    body: '{"transaction_id":"tx"}',
  });
  const stream = await served.open(`/api/replay/${created.headers.location}/events`);
  stream.resume();
  for (let sent = 0; sent < CROWD; sent += 100)
    await Promise.all(Array.from({ length: 100 }, () => open(served.port, HALF)));
  const ended = once(stream, 'end');
  await served.get(`/api/replay/${created.headers.location}`, { method: 'DELETE' });
  await ended;
});

test('another machine has its share of connections, and a proxy that is trusted has as many as there are', () => {
  const server = Object.assign(new EventEmitter(), { closeAllConnections: () => {} });
  const closed: CloseReason[] = [];
  const isProxy = (address: string | undefined) => address === '10.0.0.7';
  const limits = { connectionsMax: 8, perClientMax: 2, isProxy };
  limitConnections(server as unknown as Server, { ...limits, onClosed: (reason) => closed.push(reason) });
  const opened = (remoteAddress: string, remotePort: number) =>
    server.emit('connection', Object.assign(new EventEmitter(), { remoteAddress, remotePort, destroy: () => {} }));
  for (let port = 1; port <= 3; port++) opened('10.0.0.6', port);
  expect(closed).toEqual(['client_limit']);
  for (let port = 1; port <= 6; port++) opened('10.0.0.7', port);
  expect(closed).toEqual(['client_limit']);
});

describe('with room for few connections', () => {
  async function small(connectionsMax: number) {
    const held: (() => void)[] = [];
    const server = createServer((_req, res) => void held.push(() => res.end('done')));
    const closed: CloseReason[] = [];
    limitConnections(server, { connectionsMax, perClientMax: 1, onClosed: (reason) => closed.push(reason) });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const asked = async (text: string) => {
      const socket = await open(port, text);
      await once(server, 'request');
      return socket;
    };
    return { server, port, held, asked, closed };
  }
  const WHOLE = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

  test('the one that has been idle longest is closed, and an answer restarts the idle time', async () => {
    const { server, port, held, asked, closed } = await small(2);
    const answered = await asked(WHOLE);
    const idle = await open(port);
    held[0]!();
    await once(answered, 'data');
    const idleClosed = once(idle, 'close');
    await open(port);
    await idleClosed;
    expect([answered.closed, closed]).toEqual([false, ['made_room']]);
    server.close();
    server.closeAllConnections();
  });

  test('a connection with a second request in progress is not idle when the first is answered', async () => {
    const { server, port, held, asked } = await small(1);
    const pipelining = await asked(WHOLE + WHOLE);
    while (held.length < 2) await turn();
    held[0]!();
    await once(pipelining, 'data');
    await once(await open(port), 'close');
    held[1]!();
    await once(pipelining, 'data');
    server.close();
    server.closeAllConnections();
  });

  test('a new connection is refused if the daemon is working for all others', async () => {
    const { server, port, held, asked, closed } = await small(2);
    const [first, second] = [await asked(WHOLE), await asked(WHOLE)];
    const turnedAway = await open(port);
    await once(turnedAway, 'close');
    expect(closed).toEqual(['turned_away']);
    for (const end of held) end();
    await Promise.all([first, second].map((socket) => once(socket, 'data')));
    server.close();
    server.closeAllConnections();
  });
});
