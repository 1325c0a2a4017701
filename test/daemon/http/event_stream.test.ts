/**
 * Tests that a stream written to the socket itself is valid HTTP: complete, in order, and distinguishable from one that
 * was cut.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import express from 'express';
import type { Sink } from '../../../daemon/base/sse.ts';
import { openEventStream } from '../../../daemon/http/event_stream.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Serves what `tell` writes at /stream, and the request's path at any other address. */
async function serving(tell: (sink: Sink) => void): Promise<number> {
  const app = express();
  app.get('/stream', (_req, res) => tell(openEventStream(res)));
  app.use((req, res) => void res.type('text').send(req.path));
  const server = app.listen(0, '127.0.0.1');
  closers.push(() => server.close());
  await once(server, 'listening');
  return (server.address() as { port: number }).port;
}

/** Everything received for requests that are sent at once on one connection. */
async function answersTo(port: number, requests: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(requests);
  let text = '';
  for await (const chunk of socket.setEncoding('utf8')) text += chunk;
  return text;
}

const bodiesOf = (text: string) => text.split('\r\n\r\n');
const asBytes = (sink: Sink, text: string) => {
  const frames = Buffer.from(text);
  return sink.writeBytes(frames.length, (to, at) => to.set(frames, at));
};
const LONG = 'x'.repeat(200_000);

test('text and bytes are sent as chunks in the order in which they were written, and the connection stays open', async () => {
  const port = await serving((sink) => {
    sink.write('one ');
    asBytes(sink, 'two\n');
    sink.write('three ');
    asBytes(sink, 'four €\n');
    sink.end('five');
  });
  const request = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`;
  const text = await answersTo(port, request('/stream') + request('/next', 'Connection: close\r\n'));
  const [head, stream, , next] = bodiesOf(text);
  expect(head).toContain('Transfer-Encoding: chunked');
  expect(stream).toBe(
    ['00000004', 'one ', '00000004', 'two\n', '00000006', 'three ', '00000009', 'four €\n', '4', 'five', '0'].join(
      '\r\n',
    ),
  );
  expect(next).toBe('/next');
});

test('a stream after another answer on its connection is sent after that', async () => {
  const port = await serving((sink) => {
    asBytes(sink, 'bytes');
    sink.end();
  });
  const request = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`;
  const text = await answersTo(port, request('/first') + request('/stream', 'Connection: close\r\n'));
  expect(bodiesOf(text)[1]).toMatch(/^\/first/);
  expect(text.endsWith('\r\n\r\n5\r\nbytes\r\n0\r\n\r\n')).toBe(true);
});

test('HTTP/1.0 receives the frames alone', async () => {
  const port = await serving((sink) => {
    asBytes(sink, 'bytes ');
    sink.end('text');
  });
  const text = await answersTo(port, 'GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n');
  expect(bodiesOf(text)[1]).toBe('bytes text');
});

test('a slow reader receives everything in order, and the writer is paused and resumed', async () => {
  const port = await serving((sink) => {
    let turn = 0;
    let waits = 0;
    const fill = () => {
      while (turn < 50) if (!asBytes(sink, `${String(turn++).repeat(9)}${LONG}\n`)) return void waits++;
      sink.end(`waits: ${waits > 0}`);
    };
    sink.on('drain', fill);
    fill();
  });
  const res = await fetch(`http://127.0.0.1:${port}/stream`);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const lines = (await res.text()).split('\n');
  expect(lines.pop()).toBe('waits: true');
  expect(lines).toEqual(Array.from({ length: 50 }, (_, turn) => String(turn).repeat(9) + LONG));
});

test('memory that holds unsent data is not overwritten', async () => {
  const port = await serving((sink) => {
    for (let turn = 0; turn < 2000; turn++) asBytes(sink, `${String(turn).padStart(6)}${'y'.repeat(5000)}\n`);
    sink.end();
  });
  const lines = (await (await fetch(`http://127.0.0.1:${port}/stream`)).text()).split('\n');
  expect(lines.slice(0, -1).map((line) => Number(line.slice(0, 6)))).toEqual(
    Array.from({ length: 2000 }, (_, at) => at),
  );
});

test('after its end nothing is written to the connection', async () => {
  const port = await serving((sink) => {
    sink.end('all');
    expect(asBytes(sink, 'more')).toBe(false);
  });
  expect(await (await fetch(`http://127.0.0.1:${port}/stream`)).text()).toBe('all');
});

test('a truncated stream cannot be mistaken for complete', async () => {
  const port = await serving((sink) => {
    asBytes(sink, 'some');
    setTimeout(() => sink.destroy(), 50);
  });
  await expect(fetch(`http://127.0.0.1:${port}/stream`).then((res) => res.text())).rejects.toThrow();
});
