/**
 * Tests, byte by byte, requests that are refused before they are complete or that two parsers could understand
 * differently.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

let served: Served;
beforeAll(async () => {
  served = await serve(recorded([{ at: START, transaction: 'tx' }]));
});
afterAll(() => served.close());

const HEAD = 'POST /api/replay/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n';

/** Sends only this text and returns everything received until the daemon closes the connection. */
async function sent(text: string): Promise<string> {
  const socket = connect(served.port, '127.0.0.1');
  let answer = '';
  socket.setEncoding('utf8').on('data', (part) => {
    answer += part;
  });
  socket.write(text);
  await once(socket, 'end');
  socket.destroy();
  return answer;
}

test.each([
  ['a length over 64 KiB', `${HEAD}Content-Length: 65537\r\n\r\n{"`],
  ['a length of 1 GB', `${HEAD}Content-Length: 1000000000\r\n\r\n{"`],
  ['chunks of more than 64 KiB', `${HEAD}Transfer-Encoding: chunked\r\n\r\n20000\r\n${' '.repeat(65_600)}`],
  ['a length over 64 KiB, of which much has come', `${HEAD}Content-Length: 9000000\r\n\r\n${' '.repeat(5_000_000)}`],
])('%s is refused at once, and the answer arrives', async (_name, text) => {
  const began = performance.now();
  const answer = await sent(text);
  expect(answer).toMatch(/^HTTP\/1.1 413 [\s\S]*Connection: close[\s\S]*"code":"body_too_large"/);
  expect(performance.now() - began).toBeLessThan(2000);
});

test('a body of 64 KiB is accepted', async () => {
  const body = '{"transaction_id":"tx"}'.padEnd(64 * 1024);
  const headers = { 'content-type': 'application/json' };
  expect((await served.get('/api/replay/sessions', { method: 'POST', headers, body })).status).toBe(201);
});

test('two Host lines are a 400', async () => {
  for (const second of ['localhost', 'example.org'])
    expect(
      await sent(`GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: ${second}\r\nConnection: close\r\n\r\n`),
    ).toMatch(/^HTTP\/1.1 400 [\s\S]*"code":"malformed_request"/);
});

test.each(['utf-16', 'iso-8859-1', '"UTF-16LE"'])('charset %s is a 415', async (charset) => {
  const headers = { 'content-type': `application/json; charset=${charset}` };
  const body = '{"transaction_id":"tx"}';
  const { status, json } = await served.get('/api/replay/sessions', { method: 'POST', headers, body });
  expect([status, json.code]).toEqual([415, 'unsupported_media_type']);
});

test.each([
  ['{"transaction_id":"tx","transaction_id":"other"}', '/transaction_id'],
  ['{"transaction_id":"tx","transaction\\u005fid":"tx"}', '/transaction_id'],
  ['{"transaction_id":"tx","clock_offsets_ns":{"test-node":1,"test-node":2}}', '/clock_offsets_ns/test-node'],
  ['{"transaction_id":"tx","clock_offsets_ns":{"__proto__":1}}', '/clock_offsets_ns/__proto__'],
  ['{"transaction_id":"tx","clock_offsets_ns":{"\\u005f_proto__":1}}', '/clock_offsets_ns/__proto__'],
  ['{"transaction_id":"tx","clock_offsets_ns":{"constructor":1}}', '/clock_offsets_ns/constructor'],
  ['{"transaction_id":"tx","clock_offsets_ns":{"toString":1}}', '/clock_offsets_ns/toString'],
])('%s is a 400 at %s', async (body, pointer) => {
  const headers = { 'content-type': 'application/json' };
  const { status, json } = await served.get('/api/replay/sessions', { method: 'POST', headers, body });
  expect([status, json.code, json.errors?.[0].pointer]).toEqual([400, 'invalid_body', pointer]);
});

test.each([
  ['[', '', ']'],
  ['{"a":', '1', '}'],
])('a deeply nested body of %j is refused for its depth', async (opening, inner, closing) => {
  const headers = { 'content-type': 'application/json' };
  const depth = 30_000 / opening.length;
  const body = opening.repeat(depth) + inner + closing.repeat(depth);
  const { status, json } = await served.get('/api/replay/sessions', { method: 'POST', headers, body });
  expect([status, json.code, json.detail]).toEqual([400, 'malformed_json', expect.stringContaining('nested deeper')]);
});

test('an unescaped plus is named', async () => {
  const { status, json } = await served.get('/api/events?from=2026-11-20T10:00:00+01:00');
  expect([status, json.detail]).toEqual([400, expect.stringContaining('%2B')]);
});
