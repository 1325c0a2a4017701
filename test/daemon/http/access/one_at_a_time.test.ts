/** Tests clients that send requests without waiting for the answers before them. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { PIPELINED_MAX } from '../../../../daemon/http/access/one_at_a_time.ts';
import { close, listen } from '../../../../daemon/server/server.ts';

const requestOf = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

const ends: (() => Promise<void>)[] = [];
afterEach(() => Promise.all(ends.splice(0).map((end) => end())));

/** Serves requests that are each answered when the test says so. */
async function held() {
  const begun: { path: string; answer: () => void }[] = [];
  const closed: string[] = [];
  const [server, url] = await listen(
    (req, res) => void begun.push({ path: req.url!, answer: () => res.end(`${req.url}\n`) }),
    { host: '127.0.0.1', port: 0 },
    { onClosed: (reason) => closed.push(reason) },
  );
  const sockets: Socket[] = [];
  async function client(...paths: string[]) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {});
    sockets.push(socket);
    let text = '';
    socket.setEncoding('utf8').on('data', (more) => {
      text += more;
    });
    await once(socket, 'connect');
    socket.write(paths.map(requestOf).join(''));
    return { socket, answers: () => text.match(/^\/\w+$/gm) ?? [] };
  }
  const haveBegun = async (count: number) => {
    while (begun.length < count) await turn();
    return begun.map(({ path }) => path);
  };
  ends.push(async () => {
    for (const socket of sockets) socket.destroy();
    await close(server);
  });
  return { begun, closed, client, haveBegun };
}

test('requests of one connection begin one by one, in order, beside those of others', async () => {
  const { begun, client, haveBegun } = await held();
  const paths = Array.from({ length: PIPELINED_MAX + 1 }, (_, i) => `/a${i}`);
  const first = await client(...paths);
  await haveBegun(1);
  await client('/b');
  expect(await haveBegun(2)).toEqual(['/a0', '/b']);
  begun.splice(1, 1)[0]!.answer();
  for (let i = 0; i < paths.length; i++) {
    expect(await haveBegun(i + 1)).toEqual(paths.slice(0, i + 1));
    begun[i]!.answer();
  }
  while (first.answers().length < paths.length) await turn();
  expect(first.answers()).toEqual(paths);
  expect(first.socket.closed).toBe(false);
});

test('a connection with more requests than may wait is closed, and the others go on', async () => {
  const { begun, closed, client, haveBegun } = await held();
  const other = await client('/other');
  await haveBegun(1);
  const flood = await client(...Array.from({ length: 5000 }, () => '/flood'));
  await new Promise((resolve) => flood.socket.once('close', resolve));
  begun[0]!.answer();
  while (other.answers().length < 1) await turn();
  await client('/last');
  while (begun.at(-1)?.path !== '/last') await turn();
  // The first of the flood may have begun before the others came.
  expect(begun.filter(({ path }) => path === '/flood').length).toBeLessThanOrEqual(1);
  expect(closed).toEqual(['flooded']);
});

test('a client that leaves has none of its other requests begun', async () => {
  const { begun, client, haveBegun } = await held();
  const { socket } = await client('/first', '/second');
  await haveBegun(1);
  socket.destroy();
  await client('/next');
  expect(await haveBegun(2)).toEqual(['/first', '/next']);
  begun[0]!.answer();
  for (let turns = 0; turns < 10; turns++) await turn();
  expect(begun).toHaveLength(2);
});

test('the answer that costs nothing begins at once, however many wait to begin', async () => {
  const { client, haveBegun } = await held();
  await Promise.all([...Array(200).keys()].map((i) => client(`/w${i}`)).concat(client('/healthz')));
  expect(new Set(await haveBegun(201)).size).toBe(201);
});
