/** Tests what goes over the wire: where secrets are, how bodies are packed, and what is sent again. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { type Connection, connect } from '../../../../agent/clickhouse/connection/connection.ts';
import { createServerError, findServerMessage } from '../../../../agent/clickhouse/connection/server_error.ts';
import type { ConnectionSettings } from '../../../../agent/clickhouse/connection/settings.ts';
import { sql } from '../../../../agent/clickhouse/statements/sql.ts';

interface Received {
  url: URL;
  headers: IncomingMessage['headers'];
  body: Buffer;
}

const folder = mkdtempSync(join(tmpdir(), 'kreplay-requests-'));
const passwordFile = join(folder, 'password');
writeFileSync(passwordFile, 'pässword\n', { mode: 0o600 });
const received: Received[] = [];
let answer: (response: ServerResponse) => void;
let settings: ConnectionSettings;
let connection: Connection;

const server = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  received.push({ url: new URL(request.url!, 'http://x'), headers: request.headers, body });
  response.once('close', () => server.emit('idle', request.socket));
  answer(response);
});

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  settings = { urls: [`http://127.0.0.1:${port}`], database: 'kreplay', user: 'Jürgen', passwordFile };
});
beforeEach(() => {
  received.length = 0;
  answer = (response) => response.end();
  connection = connect(settings);
});
afterEach(() => connection.close());
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

const INTO = { table: 'event', columns: ['number', 'node'] };
const BLOCKS = [Buffer.from('one'), Buffer.alloc(300_000, 'two'), Buffer.from('three')];

test('user and password are in headers, as UTF-8, and nowhere in the address', async () => {
  await connection.run(sql`SELECT 1`);
  const [{ url, headers }] = received as [Received];
  expect(Buffer.from(headers['x-clickhouse-user'] as string, 'latin1').toString()).toBe('Jürgen');
  expect(Buffer.from(headers['x-clickhouse-key'] as string, 'latin1').toString()).toBe('pässword');
  expect(url.href).not.toMatch(/ssword|rgen/);
  expect(headers.authorization).toBeUndefined();
});

test.each([
  ['none', undefined, (body: Buffer) => body],
  ['gzip', 'gzip', gunzipSync],
  ['zstd', 'zstd', zstdDecompressSync],
] as const)(
  'blocks packed as %s arrive whole, with the names of their columns',
  async (compression, encoding, unpacked) => {
    await connection.insert(INTO, () => BLOCKS, { compression, settings: { async_insert: 0 } });
    const [{ url, headers, body }] = received as [Received];
    expect(headers['content-encoding']).toBe(encoding);
    expect(unpacked(body)).toEqual(Buffer.concat(BLOCKS));
    expect(Object.fromEntries(url.searchParams)).toEqual({
      database: 'kreplay',
      query: 'INSERT INTO `event` (`number`, `node`) FORMAT Native',
      wait_end_of_query: '1',
      async_insert: '0',
    });
  },
);

test('an account that may only read sends no settings, and no replica gets a statement twice', async () => {
  answer = (response) => response.writeHead(200).end();
  for await (const _block of connection.select(sql`SELECT 1`, { whole: true }));
  expect(received.map(({ url }) => Object.fromEntries(url.searchParams))).toEqual([
    // How an answer is sent, and no setting of a query.
    { database: 'kreplay', wait_end_of_query: '1', buffer_size: '2097152' },
  ]);
  expect(received[0]!.body.toString()).toBe('SELECT 1\nFORMAT Native');
});

describe('on a kept connection that the server closes', () => {
  beforeEach(async () => {
    const idle = once(server, 'idle');
    await connection.run(sql`SELECT 1`);
    const [kept] = await idle;
    received.length = 0;
    answer = (response) => (response.socket === kept ? response.socket!.destroy() : response.end());
  });

  test('a statement that was sent is not sent again, as it may have been done', async () => {
    await expect(connection.run(sql`DROP TABLE once`)).rejects.toMatchObject({ code: 'cut', meaning: 'repeat' });
    expect(received).toHaveLength(1);
  });

  test('blocks that were sent are not sent again', async () => {
    await expect(connection.insert(INTO, () => BLOCKS)).rejects.toMatchObject({ code: 'cut', meaning: 'repeat' });
    expect(received).toHaveLength(1);
  });

  test('a read is sent again', async () => {
    for await (const _block of connection.select(sql`SELECT 1`, { whole: true }));
    expect(received).toHaveLength(2);
  });

  test('blocks none of which was sent are sent on another connection', async () => {
    let count = 0;
    async function* blocks() {
      count++;
      if (count === 1) {
        server.closeIdleConnections();
        await sleep(100);
      }
      yield* BLOCKS;
    }
    await connection.insert(INTO, blocks);
    expect(received.map(({ body }) => body)).toEqual([Buffer.concat(BLOCKS)]);
    expect(count).toBe(2);
  });
});

describe('an answer', () => {
  test('of a newer server has its code in a header', async () => {
    answer = (response) =>
      response
        .writeHead(500, { 'X-ClickHouse-Exception-Code': '241' })
        .end('Code: 241. DB::Exception: Memory limit (total) exceeded. (MEMORY_LIMIT_EXCEEDED) (version 24.8.4.13)');
    await expect(connection.run(sql`SELECT 1`)).rejects.toMatchObject({ code: 241, meaning: 'wait' });
  });

  test('that reports an error behind a beginning of status 200 is an error', async () => {
    answer = (response) =>
      response
        .writeHead(200)
        .end('Code: 252. DB::Exception: Too many parts (300). Merges are slower. (TOO_MANY_PARTS)');
    await expect(connection.insert(INTO, () => BLOCKS)).rejects.toMatchObject({ code: 252, meaning: 'wait' });
  });

  test('that is cut means that the same is sent again, as it may have been done', async () => {
    answer = (response) => response.writeHead(200, { 'content-length': '10' }).write('\n', () => response.destroy());
    await expect(connection.insert(INTO, () => BLOCKS)).rejects.toMatchObject({ code: 'cut', meaning: 'repeat' });
  });
});

describe('an error of a server', () => {
  test.each([
    [
      252,
      "Too many partitions for single INSERT block (more than 100). The limit is controlled by 'max_partitions_per_insert_block' setting",
      'blocked',
      /too many hours/,
    ],
    [252, 'Too many parts (300). Merges are processing significantly slower than inserts.', 'wait', /do not keep up/],
    [
      252,
      "Too many parts (100001) in all partitions in total in table 'kreplay.event'. This indicates wrong choice of partition key",
      'wait',
      /merges do not keep up/,
    ],
    [10, 'Not found column bucket: in block', 'blocked', /fleet upgrade/],
    [20, 'Number of columns doesn’t match', 'blocked', /fleet upgrade/],
    [36, 'Unknown setting max_parts_in_total for storage MergeTree', 'blocked', /check what is set/],
    [115, 'Unknown setting insert_deduplication_token', 'blocked', /does not know a setting/],
    [291, 'Access denied to database tenant', 'blocked', /may not use this database/],
    [243, 'Cannot reserve 1.00 MiB, not enough space', 'wait', /no space left/],
    [516, 'kr_ship: Authentication failed', 'blocked', /check user, password and rights/],
    [497, 'Not enough privileges', 'blocked', /lacks a right/],
    [999, 'something new', 'wait', /something new/],
  ] as const)('%d, %s, means %s', (code, words, meaning, sentence) => {
    const error = createServerError(
      'https://db',
      code,
      `Code: ${code}. DB::Exception: ${words}. (NAME) (version 24.8.4.13)`,
    );
    expect(error).toMatchObject({ code, meaning, message: expect.stringMatching(sentence) });
    expect(error.message).toContain(`[code ${code}]`);
  });

  test('is found behind any bytes, and not in what only resembles one', () => {
    const old = Buffer.from(
      '\x01\xffCode: 395, e.displayText() = DB::Exception: thrown, e.what() = DB::Exception',
      'latin1',
    );
    expect(findServerMessage(old)?.code).toBe(395);
    const newer = Buffer.from('\0\0Code: 159. DB::NetException: Timeout exceeded');
    expect(findServerMessage(newer)?.code).toBe(159);
    expect(findServerMessage(Buffer.from('Code: 1, 2, 3'))).toBeUndefined();
  });
});
