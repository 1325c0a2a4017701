/** Tests which replica a statement goes to when one is away, silent, refusing, or fails in the midst of its answer. */
import type { Socket } from 'node:net';
import { readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';
import { columnOf } from './columns.ts';
import { closeAll, connectedTo, errorOf, listener, one } from './connected.ts';
import { type ClickHouseServer, endServers, startServer } from './server.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startServer();
});
afterEach(closeAll);
afterAll(endServers);

/** Also for the real server, beside suites that sync the disk. */
const TIMEOUT = { timeoutMs: 2000 };
const block = createBlockEncoder().encode([columnOf('a', 'UInt64', [1n])], 1);

const answered = (status: string, headers: string, body: string) => (socket: Socket) =>
  socket.end(`HTTP/1.1 ${status}\r\n${headers}Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`);

const refusing = (code: number) =>
  answered('500 No', `X-ClickHouse-Exception-Code: ${code}\r\n`, `Code: ${code}. DB::Exception: it cannot`);

/** A replica that counts its connections; each is answered once it has asked something. */
async function replica(answer: (socket: Socket) => void) {
  let count = 0;
  const url = await listener((socket) => {
    count++;
    socket.on('error', () => {});
    socket.once('data', () => answer(socket));
  });
  return { url, count: () => count };
}

const FAILURES: readonly [string, (socket: Socket) => void, string | number][] = [
  ['never answers', () => {}, 'timeout'],
  ['closes the connection', (socket) => socket.destroy(), 'cut'],
  ...[202, 203, 209, 210, 225, 236, 242, 243, 279, 999].map(
    (code) => [`refuses with code ${code}`, refusing(code), code] as [string, (socket: Socket) => void, number],
  ),
  ['is a proxy without a server', answered('503 Away', '', 'Away'), 'refused'],
  ['is silent in the midst of its answer', (socket) => socket.write('HTTP/1.1 200 OK\r\n\r\n'), 'timeout'],
  ['answers half', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n\0'), 'malformed'],
  ['reports an error within its answer', answered('200 OK', '', 'Code: 242. DB::Exception: read-only'), 242],
];

describe('a replica that', () => {
  test.each(FAILURES)('%s is passed over by a read at once, and by those after it', async (_, answer) => {
    const broken = await replica(answer);
    const connection = connectedTo(broken.url, { urls: [broken.url, server.url] });
    expect(await rowsOf(connection, one, TIMEOUT)).toEqual([{ one: 1n }]);
    expect(broken.count()).toBe(1);
    expect(await rowsOf(connection, one, TIMEOUT)).toEqual([{ one: 1n }]);
    await connection.run(sql`CREATE TABLE IF NOT EXISTS passed (a UInt64) ENGINE = MergeTree ORDER BY a`);
    expect(broken.count()).toBe(1);
  });

  test.each(FAILURES)(
    '%s is the error of an insert, whose repetition goes to the next one',
    async (_, answer, code) => {
      await server.sql('DROP TABLE IF EXISTS again');
      await server.sql('CREATE TABLE again (a UInt64) ENGINE = MergeTree ORDER BY a');
      const broken = await replica(answer);
      const connection = connectedTo(broken.url, { urls: [broken.url, server.url] });
      const insert = () => connection.insert({ table: 'again', columns: ['a'] }, () => [block], TIMEOUT);
      // An answer that says nothing is that of a successful insert.
      const own = code === 'malformed' ? 'cut' : code;
      expect(await errorOf(insert())).toMatchObject({ code: own });
      expect(await rowsOf(connectedTo(server.url), sql`SELECT a FROM again`)).toEqual([]);
      await insert();
      await insert();
      expect(broken.count()).toBe(1);
      expect(await rowsOf(connection, sql`SELECT sum(a) AS a FROM again`)).toEqual([{ a: 2n }]);
    },
  );

  test('refuses a statement that no replica would take is not passed over', async () => {
    const other = await replica(refusing(242));
    const connection = connectedTo(server.url, { urls: [server.url, other.url] });
    expect(await errorOf(rowsOf(connection, sql`SELECT * FROM missing`))).toMatchObject({ code: 60 });
    expect(await errorOf(connection.run(sql`DROP TABLE missing`))).toMatchObject({ code: 60 });
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
    expect(other.count()).toBe(0);
  });

  test('fails after rows were given ends the read, as they would come twice', async () => {
    const row = createBlockEncoder().encode([columnOf('one', 'UInt8', [1n])], 1);
    const broken = await replica((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${2 * row.length}\r\n\r\n`);
      socket.write(row);
    });
    const connection = connectedTo(broken.url, { urls: [broken.url, server.url] });
    let rows = 0;
    async function read(): Promise<void> {
      for await (const { rowCount } of connection.select(one, TIMEOUT)) rows += rowCount;
    }
    expect(await errorOf(read())).toMatchObject({ code: 'timeout' });
    expect(rows).toBe(1);
    await read();
    expect([rows, broken.count()]).toEqual([2, 1]);
  });

  test('fails like all others gives the first error, and each is asked once', async () => {
    const replicas = [await replica(refusing(242)), await replica(refusing(279)), await replica(refusing(202))];
    const connection = connectedTo('', { urls: replicas.map(({ url }) => url) });
    expect(await errorOf(rowsOf(connection, one))).toMatchObject({ code: 242, meaning: 'wait' });
    expect(replicas.map(({ count }) => count())).toEqual([1, 1, 1]);
  });
});
