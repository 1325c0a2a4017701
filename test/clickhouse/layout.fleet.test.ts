/** Tests that the length of a bucket is one for all tables and servers, whatever has happened while they were made. */
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type Connection, connect } from '../../agent/clickhouse/connection/connection.ts';
import { readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { sql, text } from '../../agent/clickhouse/statements/sql.ts';
import { createTables, upgradeTables } from '../../agent/clickhouse/tables/changes.ts';
import { readDraft, readMeta, writeMeta } from '../../agent/clickhouse/tables/meta.ts';
import { readServerVersion } from '../../agent/clickhouse/tables/server_version.ts';
import { start } from '../daemon/command_line.ts';
import { type ClickHouseServer, endServers, startServer } from './server.ts';

const TEN_S = 10_000_000_000n;
const open: (() => void)[] = [];
let server: ClickHouseServer;
let second: ClickHouseServer;
let count = 0;

beforeAll(async () => {
  [server, second] = await Promise.all([startServer(), startServer()]);
});
afterEach(() => {
  for (const close of open.splice(0)) close();
});
afterAll(endServers);

async function newPlace(url = server.url, database = `layout_${++count}`) {
  const settings = { urls: [url], database };
  const connection = connect({ ...settings, urls: [server.url] });
  open.push(() => connection.close());
  const place = { database, version: await readServerVersion({ ...settings, urls: [server.url] }) };
  const init = (bucketNs?: bigint) => createTables(settings, place, { bucketNs, nowNs: BigInt(Date.now()) });
  return { connection, place, init };
}

/** The length of a bucket in the table `event` itself. */
async function bucketOf(connection: Connection): Promise<string> {
  const [row] = await rowsOf(
    connection,
    sql`SELECT default_expression AS value FROM system.columns WHERE database = ${text(connection.database)} AND table = 'event' AND name = 'bucket'`,
  );
  return String(row?.value);
}

/** A way to the server that is cut at the first statement with this text. */
async function cutAt(words: string): Promise<string> {
  const proxy = createServer(async (incoming, response) => {
    const body = Buffer.concat(await incoming.toArray());
    if (body.includes(words)) return response.destroy();
    const { method, url, headers } = incoming;
    const outgoing = request({ host: '127.0.0.1', port: server.port, method, path: url, headers });
    outgoing.end(body);
    const [answer] = await once(outgoing, 'response');
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  open.push(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  return `http://127.0.0.1:${(proxy.address() as { port: number }).port}`;
}

describe('the length of a bucket', () => {
  test.each(['`meta`', '`event`', '`stat`', '`pinned_transaction`'])(
    'survives an init that ends at the table %s',
    async (name) => {
      const cut = await newPlace(await cutAt(`.${name} (`));
      await expect(cut.init(TEN_S)).rejects.toMatchObject({ code: 'cut' });
      const { connection, init, place } = await newPlace(server.url, cut.place.database);
      expect(await readMeta(connection)).toBeUndefined();
      expect((await readDraft(connection))?.bucketNs).toBe(name === '`meta`' ? undefined : TEN_S);
      await expect(upgradeTables(connection, place, 1n)).rejects.toThrow(/or not all: run `kreplay fleet init`/);
      const wanted = name === '`meta`' ? TEN_S : undefined;
      expect((await init(wanted)).meta.bucketNs).toBe(TEN_S);
      expect(await readMeta(connection)).toMatchObject({ bucketNs: TEN_S, schemaVersion: 1 });
      expect(await bucketOf(connection)).toContain('10000000000');
    },
  );

  test('is that of the tables when meta is lost', async () => {
    const { connection, init } = await newPlace();
    await init(TEN_S);
    await connection.run(sql`DROP TABLE meta`);
    await expect(init(60_000_000_000n)).rejects.toThrow(/have buckets of 10000000000 ns/);
    expect((await init()).meta.bucketNs).toBe(TEN_S);
  });

  test('is not changed by another one in meta', async () => {
    const { connection, init, place } = await newPlace();
    await init(TEN_S);
    await writeMeta(connection, { bucketNs: 60_000_000_000n }, BigInt(Date.now()) + 10n ** 9n);
    await connection.run(sql`DROP TABLE pin`);
    for (const change of [() => init(), () => init(TEN_S), () => upgradeTables(connection, place, 1n)])
      await expect(change()).rejects.toThrow(
        /meta says buckets of 60000000000 ns, \S+event has buckets of 10000000000 ns/,
      );
  });
});

describe('kreplay fleet with several servers', () => {
  const fleet = (command: string, database: string, ...more: string[]) =>
    start('fleet', command, '--database', database, '--url', ...more).ended;

  test('changes none of them when their buckets differ', async () => {
    expect(await fleet('init', 'differ', second.url, '--bucket', '10s')).toMatchObject({ code: 0 });
    expect(await fleet('init', 'differ', server.url)).toMatchObject({ code: 0 });
    await server.sql('DROP TABLE differ.pin');
    for (const command of ['init', 'upgrade'])
      expect(await fleet(command, 'differ', server.url, second.url)).toMatchObject({
        code: 1,
        stdout: '',
        stderr: `kreplay: ${server.url} has buckets of 60000000000 ns, ${second.url} has buckets of 10000000000 ns: they are not of one fleet, so name only those that are\n`,
      });
    expect((await server.sql('EXISTS TABLE differ.pin')).toString()).toBe('0\n');
  });

  test('gives a new server the bucket of the others', async () => {
    expect(await fleet('init', 'grown', second.url, '--bucket', '10s')).toMatchObject({ code: 0 });
    expect(await fleet('upgrade', 'grown', server.url, second.url)).toMatchObject({ code: 1, stdout: '' });
    expect(await fleet('init', 'grown', server.url, second.url)).toMatchObject({ code: 0, stderr: '' });
    const { connection } = await newPlace(server.url, 'grown');
    expect((await readMeta(connection))?.bucketNs).toBe(TEN_S);
    expect(await bucketOf(connection)).toContain('10000000000');
  });
});
