/** Tests servers that are away, silent, or something else: replicas, and what each error means. */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '../../agent/clickhouse/connection/connection.ts';
import { readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import type { ConnectionSettings } from '../../agent/clickhouse/connection/settings.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';
import { columnOf } from './columns.ts';
import { closeAll, connectedTo, errorOf, listener, one } from './connected.ts';
import { type ClickHouseServer, endServers, freePort, startServer } from './server.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startServer();
});
afterEach(closeAll);
afterAll(endServers);

const connected = (settings: Partial<ConnectionSettings> = {}) => connectedTo(server.url, settings);

describe('a server that is not there', () => {
  test('is passed over for the next replica, and not tried again while that one answers', async () => {
    const port = await freePort();
    const dead = `http://127.0.0.1:${port}`;
    const connection = connected({ urls: [dead, server.url] });
    const other = connected({ urls: [dead, server.url] });
    let made = 0;
    const block = createBlockEncoder().encode([columnOf('a', 'UInt64', [1n])], 1);
    const insert = (by: Connection) =>
      by.insert({ table: 'second', columns: ['a'] }, () => {
        made++;
        return [block];
      });
    await connection.run(sql`CREATE TABLE IF NOT EXISTS second (a UInt64) ENGINE = MergeTree ORDER BY a`);
    await insert(other);
    expect(made).toBeGreaterThanOrEqual(1);
    let accepted = 0;
    await listener((socket) => {
      accepted++;
      socket.destroy();
    }, port);
    for (const by of [connection, other]) {
      await insert(by);
      expect(await rowsOf(by, one)).toEqual([{ one: 1n }]);
    }
    expect(await rowsOf(connection, sql`SELECT sum(a) AS a FROM second`)).toEqual([{ a: 3n }]);
    expect(accepted).toBe(0);
  });

  test('is an error that waits, when no replica is there', async () => {
    const dead = await listener(() => {});
    closeAll();
    const error = await errorOf(rowsOf(connected({ urls: [dead, dead] }), one));
    expect(error).toMatchObject({
      code: 'unreachable',
      meaning: 'wait',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });

  test.each([
    ['closes the connection', (socket: Socket) => socket.once('data', () => socket.destroy()), 'cut', 'repeat'],
    ['never answers', () => {}, 'timeout', 'repeat'],
    [
      'is a proxy without a server',
      (socket: Socket) => socket.end('HTTP/1.1 503 Away\r\nContent-Length: 4\r\n\r\nAway'),
      'refused',
      'wait',
    ],
    [
      'is no ClickHouse',
      (socket: Socket) => socket.end('HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n'),
      'refused',
      'blocked',
    ],
    [
      'answers with something else',
      (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n<html>\nhello\n\n'),
      'malformed',
      'repeat',
    ],
    [
      'answers half',
      (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n\x01\x00'),
      'malformed',
      'repeat',
    ],
    [
      'answers with blocks, and ends early between them',
      (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n\x00\x00'),
      'cut',
      'repeat',
    ],
  ] as const)('or %s, has its own error', async (_, answer, code, meaning) => {
    const url = await listener(answer);
    const error = await errorOf(rowsOf(connected({ urls: [url] }), one, { timeoutMs: 300 }));
    expect(error).toMatchObject({ code, meaning });
  });
});

test('an insert that is refused before its end reads no more of its blocks', async () => {
  const url = await listener((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.pause();
      socket.write('HTTP/1.1 503 Full\r\nContent-Length: 4\r\n\r\nFull');
    });
  });
  let isOver = false;
  async function* endless() {
    try {
      for (;;) yield Buffer.alloc(65_536);
    } finally {
      isOver = true;
    }
  }
  const connection = connectedTo(url);
  const error = await errorOf(connection.insert({ table: 'a', columns: ['a'] }, endless));
  expect(error).toMatchObject({ code: 'refused', meaning: 'wait' });
  for (let tries = 0; !isOver && tries < 100; tries++) await sleep(20);
  expect(isOver).toBe(true);
});

describe('an aborted signal', () => {
  const block = createBlockEncoder().encode([columnOf('a', 'UInt8', [1n])], 1);
  const into = { table: 'a', columns: ['a'] };
  let running = 0;
  async function* endless() {
    running++;
    try {
      for (;;) {
        await sleep(1);
        yield block;
      }
    } finally {
      running--;
    }
  }
  const ways: readonly [string, (connection: Connection, signal: AbortSignal) => Promise<unknown>][] = [
    ['a statement', (connection, signal) => connection.run(one, { signal })],
    ['a read', (connection, signal) => rowsOf(connection, one, { signal })],
    ['an insert', (connection, signal) => connection.insert(into, () => [block], { signal })],
    ['an insert whose blocks are sent', (connection, signal) => connection.insert(into, endless, { signal })],
    [
      'a packed insert whose blocks are sent',
      (connection, signal) => connection.insert(into, endless, { signal, compression: 'gzip' }),
    ],
  ];
  const moments: readonly [string, string][] = [
    ['before the answer', ''],
    ['within its header', 'HTTP/1.1 200 OK\r\n'],
    ['before its body', 'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n'],
    ['within its body', 'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\n'],
    ['within a refusal', 'HTTP/1.1 500 No\r\nContent-Length: 8\r\n\r\nCode'],
  ];

  test.each(ways)('of %s is what it throws, whenever it comes', async (_, begin) => {
    for (const [, answer] of moments) {
      let asked = () => {};
      const isAsked = new Promise<void>((resolve) => {
        asked = resolve;
      });
      const url = await listener((socket) => {
        socket.on('error', () => {});
        socket.once('data', () => {
          socket.write(answer);
          asked();
        });
      });
      const abort = new AbortController();
      const reason = new Error('enough');
      const work = begin(connectedTo(url), abort.signal);
      work.catch(() => {});
      await isAsked;
      await sleep(20);
      abort.abort(reason);
      await expect(work).rejects.toBe(reason);
      await expect(begin(connectedTo(url), abort.signal)).rejects.toBe(reason);
    }
    for (let tries = 0; running > 0 && tries < 100; tries++) await sleep(20);
    expect(running).toBe(0);
  });
});

describe('silence', () => {
  test('of the server in the midst of an answer is an error, and a slow reader is none', async () => {
    const block = createBlockEncoder().encode([columnOf('a', 'UInt8', [1n])], 1);
    const length = 3 * block.length;
    let isSilent = true;
    const url = await listener((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`);
        socket.write(isSilent ? block : Buffer.concat([block, block, block]));
      });
    });
    const read = async (pauseMs: number) => {
      let rows = 0;
      const connection = connectedTo(url);
      for await (const { rowCount } of connection.select(one, { timeoutMs: 200 })) {
        rows += rowCount;
        await sleep(pauseMs);
      }
      return rows;
    };
    expect(await errorOf(read(0))).toMatchObject({ code: 'timeout', meaning: 'repeat' });
    isSilent = false;
    expect(await read(300)).toBe(3);
  });
});
