/** Tests statements to a real server: answers, errors and what they mean, replicas, certificates, passwords. */
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Connection, connect } from '../../agent/clickhouse/connection/connection.ts';
import { rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { ServerError } from '../../agent/clickhouse/connection/server_error.ts';
import type { ConnectionSettings } from '../../agent/clickhouse/connection/settings.ts';
import { newBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';
import { newAuthority, newCertificate } from '../daemon/certificates.ts';
import { columnOf } from './columns.ts';
import { ACCOUNTS, type ClickHouseServer, endServers, isInstalled, startServer } from './server.ts';

const withServer = isInstalled ? describe : describe.skip;
const folder = mkdtempSync(join(tmpdir(), 'kreplay-connection-'));
const open: (() => unknown)[] = [];
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startServer();
});
afterEach(() => {
  for (const close of open.splice(0)) close();
});
afterAll(async () => {
  await endServers();
  rmSync(folder, { recursive: true });
});

function connected(settings: Partial<ConnectionSettings> = {}): Connection {
  const connection = connect({ urls: [server.url], database: 'default', ...settings });
  open.push(() => connection.close());
  return connection;
}

function fileWith(name: string, text: string, mode = 0o600): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

async function errorOf(work: Promise<unknown>): Promise<ServerError> {
  const error = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(error instanceof ServerError)) throw error ?? new Error('there was no error');
  return error;
}

const one = sql`SELECT toUInt8(1) AS one`;

/** A listener that does with each connection what a broken server or proxy would. */
async function listener(answer: (socket: Socket) => void): Promise<string> {
  const listening = createServer(answer).listen(0, '127.0.0.1');
  open.push(() => listening.close());
  await once(listening, 'listening');
  return `http://127.0.0.1:${(listening.address() as { port: number }).port}`;
}

withServer('statements', () => {
  test('give typed rows, and blocks into tables come back, plain and packed', async () => {
    const connection = connected();
    await connection.run(sql`CREATE TABLE rows (a UInt64, b String) ENGINE = MergeTree ORDER BY a`);
    const encoder = newBlockEncoder();
    const blocks = [0n, 1n, 2n].map((a) =>
      encoder.encode([columnOf('a', 'UInt64', [a]), columnOf('b', 'String', [`text ${a}`])], 1),
    );
    await connection.insert({ table: 'rows', columns: ['a', 'b'] }, () => blocks);
    await connection.insert({ table: 'rows', columns: ['a', 'b'] }, () => blocks, { compression: 'gzip' });
    const sums = await rowsOf(
      connection,
      sql`SELECT b, sum(a) AS a, toUInt32(count()) AS n FROM rows GROUP BY b ORDER BY b`,
    );
    expect(sums).toEqual([
      { b: 'text 0', a: 0n, n: 2n },
      { b: 'text 1', a: 2n, n: 2n },
      { b: 'text 2', a: 4n, n: 2n },
    ]);
  });

  test.each([
    ['no such table', sql`SELECT * FROM missing`, 60, 'blocked', /kreplay fleet init/],
    ['no such column', sql`SELECT missing FROM system.one`, 47, 'blocked', /kreplay fleet upgrade/],
    ['words that are no SQL', sql`SELEC`, 62, 'blocked', /does not understand/],
    [
      'an error that has no meaning of its own',
      sql`SELECT throwIf(number = 2) FROM system.numbers LIMIT 3`,
      395,
      'wait',
      /throwIf/,
    ],
  ])('%s is an error with what to do', async (_, statement, code, meaning, advice) => {
    const error = await errorOf(rowsOf(connected(), statement));
    expect(error).toMatchObject({ code, meaning, message: expect.stringMatching(advice) });
    expect(error.message).toContain(server.url);
  });

  test('an error in the midst of an answer of status 200 is found, after the rows before it', async () => {
    const statement = sql`SELECT number, throwIf(number = 3000000) AS thrown FROM system.numbers LIMIT 10000000`;
    let rows = 0;
    async function read(options: { whole?: boolean }): Promise<void> {
      rows = 0;
      for await (const { rowCount } of connected().select(statement, options)) rows += rowCount;
    }
    expect(await errorOf(read({}))).toMatchObject({ code: 395, message: expect.stringContaining('throwIf') });
    expect(rows).toBeGreaterThan(0);
    expect(await errorOf(read({ whole: true }))).toMatchObject({ code: 395 });
    expect(rows).toBe(0);
  });

  test('an endless answer ends on the server when the caller wants no more', async () => {
    const connection = connected();
    for await (const { rowCount } of connection.select(sql`SELECT number FROM system.numbers`)) {
      expect(rowCount).toBeGreaterThan(0);
      break;
    }
    const running = sql`SELECT toUInt64(count()) AS n FROM system.processes WHERE query LIKE 'SELECT number FROM system.numbers%'`;
    for (let tries = 0; tries < 100; tries++) {
      if ((await rowsOf(connection, running))[0]!.n === 0n) return;
      await sleep(50);
    }
    throw new Error('the statement goes on');
  });

  test('an aborted statement throws what its signal says', async () => {
    const abort = new AbortController();
    const reason = new Error('enough');
    const reading = rowsOf(connected(), sql`SELECT sum(number) AS n FROM system.numbers`, { signal: abort.signal });
    setTimeout(() => abort.abort(reason), 50);
    await expect(reading).rejects.toBe(reason);
    await expect(rowsOf(connected(), one, { signal: abort.signal })).rejects.toBe(reason);
  });

  test('an error of the blocks that a caller sends is the caller’s own', async () => {
    const connection = connected();
    await connection.run(sql`CREATE TABLE IF NOT EXISTS own (a UInt64) ENGINE = MergeTree ORDER BY a`);
    const own = Object.assign(new Error('the file cannot be read'), { code: 'EIO' });
    async function* failing() {
      yield newBlockEncoder().encode([columnOf('a', 'UInt64', [1n])], 1);
      throw own;
    }
    for (const compression of ['none', 'gzip'] as const)
      await expect(connection.insert({ table: 'own', columns: ['a'] }, failing, { compression })).rejects.toBe(own);
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
  });

  test('a table that has other columns refuses blocks with its own words, and a killed server cuts them', async () => {
    const connection = connected();
    await connection.run(sql`CREATE TABLE IF NOT EXISTS other (b String) ENGINE = MergeTree ORDER BY b`);
    const many = newBlockEncoder().encode([columnOf('a', 'UInt64', Array<bigint>(65_536).fill(1n))], 65_536);
    let [count, isEndless] = [0, false];
    function* blocks() {
      for (count = 0; isEndless || count < 100; count++) yield many;
    }
    expect(await errorOf(connection.insert({ table: 'other', columns: ['a'] }, blocks))).toMatchObject({
      code: expect.any(Number),
    });
    await connection.run(sql`CREATE TABLE IF NOT EXISTS cut (a UInt64) ENGINE = Null`);
    isEndless = true;
    const inserting = errorOf(connected().insert({ table: 'cut', columns: ['a'] }, blocks));
    while (count < 20) await sleep(5);
    await server.kill();
    expect(await inserting).toMatchObject({ code: 'cut', meaning: 'repeat' });
    await server.restart();
  });

  test('a refused insert says why, though the server reads all of its blocks first', async () => {
    const connection = connected();
    const block = newBlockEncoder().encode([columnOf('a', 'UInt64', Array<bigint>(100_000).fill(1n))], 100_000);
    let sent = 0;
    function* blocks() {
      for (sent = 0; sent < 100; sent++) yield block;
    }
    const error = await errorOf(connection.insert({ table: 'never_made', columns: ['a'] }, blocks));
    expect(error).toMatchObject({ code: 60, meaning: 'blocked' });
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
  });

  test('a kept connection that the server has closed is opened again', async () => {
    const connection = connected();
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
    await server.kill();
    await server.restart();
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
  });
});

withServer('a limit of the server', () => {
  test('of memory and of time means to wait', async () => {
    const sorted = sql`SELECT number FROM (SELECT number FROM numbers(10000000) ORDER BY sipHash64(number)) LIMIT 1`;
    const short = { settings: { max_memory_usage: 10_000_000 } };
    expect(await errorOf(rowsOf(connected(), sorted, short))).toMatchObject({ code: 241, meaning: 'wait' });
    const endless = sql`SELECT sum(number) AS n FROM system.numbers`;
    const brief = { settings: { max_execution_time: 1 } };
    expect(await errorOf(rowsOf(connected(), endless, brief))).toMatchObject({ code: 159, meaning: 'wait' });
  });

  test('of parts means to wait until they are merged', async () => {
    const connection = connected();
    await connection.run(
      sql`CREATE TABLE parts (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS parts_to_delay_insert = 1, parts_to_throw_insert = 1, max_bytes_to_merge_at_max_space_in_pool = 1`,
    );
    const block = newBlockEncoder().encode([columnOf('a', 'UInt64', [1n])], 1);
    const send = () => connection.insert({ table: 'parts', columns: ['a'] }, () => [block]);
    const error = await errorOf(
      (async () => {
        for (let i = 0; i < 10; i++) await send();
      })(),
    );
    expect(error).toMatchObject({
      code: 252,
      meaning: 'wait',
      message: expect.stringMatching(/merges do not keep up/),
    });
  });
});

withServer('a server that is not there', () => {
  test('is passed over for the next replica, whose place is kept', async () => {
    const accepted: number[] = [];
    const dead = await listener((socket) => {
      accepted.push(1);
      socket.destroy();
    });
    open.splice(0).map((close) => close());
    const connection = connected({ urls: [dead, server.url] });
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
    let made = 0;
    const block = newBlockEncoder().encode([columnOf('a', 'UInt64', [1n])], 1);
    await connection.run(sql`CREATE TABLE IF NOT EXISTS second (a UInt64) ENGINE = MergeTree ORDER BY a`);
    const other = connected({ urls: [dead, server.url] });
    await other.insert({ table: 'second', columns: ['a'] }, () => {
      made++;
      return [block];
    });
    expect(made).toBeGreaterThanOrEqual(1);
    expect(await rowsOf(connection, sql`SELECT a FROM second`)).toEqual([{ a: 1n }]);
    expect(accepted).toEqual([]);
  });

  test('is an error that waits, when no replica is there', async () => {
    const dead = await listener(() => {});
    open.splice(0).map((close) => close());
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
  const connection = connect({ urls: [url], database: 'default' });
  open.push(() => connection.close());
  const error = await errorOf(connection.insert({ table: 'a', columns: ['a'] }, endless));
  expect(error).toMatchObject({ code: 'refused', meaning: 'wait' });
  for (let tries = 0; !isOver && tries < 100; tries++) await sleep(20);
  expect(isOver).toBe(true);
});

describe('silence', () => {
  test('of the server in the midst of an answer is an error, and a slow reader is none', async () => {
    const block = newBlockEncoder().encode([columnOf('a', 'UInt8', [1n])], 1);
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
      const connection = connect({ urls: [url], database: 'default' });
      open.push(() => connection.close());
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

withServer('an account', () => {
  const passwordFile = fileWith('password', `${ACCOUNTS.writer}\n`);

  test('is let in with its password, from a file or from the credentials of a service', async () => {
    expect(await rowsOf(connected({ user: 'writer', passwordFile }), one)).toEqual([{ one: 1n }]);
    process.env.CREDENTIALS_DIRECTORY = folder;
    try {
      expect(await rowsOf(connected({ user: 'writer', passwordFile: 'password' }), one)).toEqual([{ one: 1n }]);
    } finally {
      delete process.env.CREDENTIALS_DIRECTORY;
    }
  });

  test.each([
    ['a wrong password', 'writer', 'wrong', 193],
    ['an unknown name', 'somebody', 'wrong', 192],
  ])('is refused with %s, and the message has no password', async (_, user, password, code) => {
    const file = fileWith('wrong', password);
    const error = await errorOf(rowsOf(connected({ user, passwordFile: file }), one));
    expect(error).toMatchObject({ code, meaning: 'blocked', message: expect.stringMatching(/check user, password/) });
    expect(error.message).not.toContain(password === 'wrong' ? 'wrong ' : password);
  });

  test('that may only read is refused when it writes', async () => {
    const reader = connected({ user: 'reader', passwordFile: fileWith('reader', ACCOUNTS.reader) });
    expect(await rowsOf(reader, one)).toEqual([{ one: 1n }]);
    expect(await errorOf(reader.run(sql`CREATE TABLE no (a UInt8) ENGINE = Memory`))).toMatchObject({
      code: 164,
      meaning: 'blocked',
    });
  });
});

describe('a password file', () => {
  test.each([
    ['is open to others', () => fileWith('open', 'x', 0o640), /open to other users: `chmod 600/],
    ['is not there', () => join(folder, 'none'), /there is no/],
    ['is a folder', () => folder, /is not a file|EISDIR/],
    ['has two lines', () => fileWith('two', 'secret\nX-Header: x\n'), /more than one line/],
    ['is too large', () => fileWith('large', 'x'.repeat(5000)), /too large/],
  ])('that %s is refused, and not quoted', (_, path, message) => {
    const settings = { urls: ['http://127.0.0.1:1'], database: 'default', user: 'x', passwordFile: path() };
    expect(() => connect(settings)).toThrow(message);
    expect(() => connect(settings)).not.toThrow(/secret/);
  });

  test('behind a link is read', () => {
    const link = join(folder, 'link');
    symlinkSync(fileWith('target', 'x'), link);
    expect(() =>
      connect({ urls: ['http://127.0.0.1:1'], database: 'default', user: 'x', passwordFile: link }),
    ).not.toThrow();
  });
});

describe('a URL', () => {
  test.each([
    ['http://db.example:8123', /unencrypted: give https/],
    ['http://10.0.0.1', /unencrypted/],
    ['ftp://127.0.0.1', /not a URL/],
    ['https://user:secret@db.example:8443', /must not contain user or password/],
    ['https://db.example:8443/path', /more than scheme, host and port/],
    ['https://db.example:8443/?user=x', /more than scheme, host and port/],
    ['db.example:8443', /not a URL/],
  ])('%s is refused', (url, message) => {
    expect(() => connect({ urls: [url], database: 'default' })).toThrow(message);
    expect(() => connect({ urls: [url], database: 'default' })).not.toThrow(/secret/);
  });

  test.each(['http://127.0.0.1:8123', 'http://localhost', 'http://[::1]:8123/', 'https://db.example'])(
    '%s is taken',
    (url) => {
      expect(() => connect({ urls: [url], database: 'default' })).not.toThrow();
    },
  );
});

withServer('over TLS', () => {
  test('a server of our authority is trusted, and wants our certificate', async () => {
    const authority = newAuthority(folder);
    const other = newAuthority(folder, 'other');
    const certificate = newCertificate(folder, 'server', authority);
    const client = newCertificate(folder, 'client', authority);
    const secure = await startServer({ tls: { certificate, authority } });
    const urls = [secure.url];
    const own = { ca: authority.cert, ...client };
    expect(await rowsOf(connected({ urls, tls: own }), one)).toEqual([{ one: 1n }]);
    expect(await errorOf(rowsOf(connected({ urls, tls: { ...own, ca: other.cert } }), one))).toMatchObject({
      code: 'unreachable',
      meaning: 'wait',
      message: expect.stringMatching(/cannot be trusted/),
    });
    expect(await errorOf(rowsOf(connected({ urls, tls: { ca: authority.cert } }), one))).toBeInstanceOf(ServerError);
    expect(() => connected({ urls, tls: { ca: authority.cert, cert: client.cert } })).toThrow(/needs its key/);
  });
});
