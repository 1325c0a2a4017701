/** Tests a cluster of two shards with two replicas each: tables on all, rows once, a replica that was away. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Connection, connect } from '../../agent/clickhouse/connection/connection.ts';
import { type AnswerRow, readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { type Sql, sql } from '../../agent/clickhouse/statements/sql.ts';
import { start } from '../daemon/command_line.ts';
import { startCluster } from './cluster.ts';
import { columnOf } from './columns.ts';
import { type ClickHouseServer, endServers } from './server.ts';

const open: Connection[] = [];
let servers: ClickHouseServer[][];

beforeAll(async () => {
  servers = await startCluster(2, 2);
}, 120_000);
afterAll(async () => {
  for (const connection of open) connection.close();
  await endServers();
});

const fleet = (command: string, ...more: string[]) =>
  start('fleet', command, '--url', ...servers.flat().map(({ url }) => url), ...more).ended;

function connected(...replicas: ClickHouseServer[]): Connection {
  const connection = connect({ urls: replicas.map(({ url }) => url), database: 'kreplay' });
  open.push(connection);
  return connection;
}

async function until(connection: Connection, statement: Sql, wanted: AnswerRow): Promise<void> {
  for (let tries = 0; ; tries++) {
    const [row] = await rowsOf(connection, statement);
    if (JSON.stringify(row, text) === JSON.stringify(wanted, text)) return;
    if (tries === 800) expect(row).toEqual(wanted);
    await sleep(50);
  }
}

const text = (_key: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);

const COLUMNS = ['recording', 'first_number', 'end_number', 'n'];

function segments(recording: bigint, numbers: readonly bigint[]): Buffer {
  const columns = COLUMNS.map((name) =>
    columnOf(
      name,
      'UInt64',
      numbers.map((number) => ({ recording, first_number: number, end_number: number + 1n, n: 1n })[name]!),
    ),
  );
  return createBlockEncoder().encode(columns, numbers.length);
}

// As the daemon reads them: a row that is sent again in another second is there twice until both are merged.
const SUM = sql`SELECT toUInt64(count()) AS rows, sum(first_number) AS numbers FROM segment FINAL`;
const SUM_OF_ALL = sql`SELECT toUInt64(count()) AS rows, sum(first_number) AS numbers FROM segment_all FINAL`;

describe('a cluster', () => {
  test('gets tables on each server, and columns on each when a newer kreplay comes', async () => {
    const { code, stdout, stderr } = await fleet('init', '--cluster', 'main');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.match(/added meta, meta_all, event, event_all/g)).toHaveLength(4);
    const again = await fleet('init', '--cluster', 'main');
    expect(again.stdout.match(/nothing to add/g)).toHaveLength(4);
    const [first] = servers[0]!;
    await connected(first!).run(sql`ALTER TABLE segment DROP COLUMN end_max`);
    await connected(first!).run(sql`ALTER TABLE segment_all DROP COLUMN end_max`);
    const upgraded = await fleet('upgrade', '--cluster', 'main');
    expect({ code: upgraded.code, stderr: upgraded.stderr }).toEqual({ code: 0, stderr: '' });
    expect(upgraded.stdout).toContain('added segment.end_max, segment_all.end_max');
  });

  test('gets the tables that it lacks as replicated ones, without being asked for its cluster', async () => {
    const [[a], [c]] = servers as [[ClickHouseServer], [ClickHouseServer]];
    await connected(a).run(sql`DROP TABLE clock`);
    await connected(c).run(sql`DROP TABLE clock_all`);
    const upgraded = await fleet('upgrade');
    expect({ code: upgraded.code, stderr: upgraded.stderr }).toEqual({ code: 0, stderr: '' });
    expect(upgraded.stdout).toMatch(new RegExp(`${a.url}: .* added clock\\n`));
    expect(upgraded.stdout).toMatch(new RegExp(`${c.url}: .* added clock_all\\n`));
    const engines = sql`SELECT DISTINCT engine FROM system.tables WHERE database = 'kreplay' ORDER BY engine`;
    for (const server of servers.flat())
      expect((await rowsOf(connected(server), engines)).map(({ engine }) => engine)).toEqual([
        'Distributed',
        'ReplicatedReplacingMergeTree',
      ]);
  });

  test('gets a column once when two upgrades run at the same time', async () => {
    const [[a, b]] = servers as [[ClickHouseServer, ClickHouseServer]];
    await connected(a).run(sql`ALTER TABLE segment DROP COLUMN end_max`);
    const has = sql`SELECT toUInt8(count()) AS n FROM system.columns WHERE database = 'kreplay' AND table = 'segment' AND name = 'end_max'`;
    for (const one of [a, b]) await until(connected(one), has, { n: 0n });
    const both = [a, b].map(({ url }) => start('fleet', 'upgrade', '--url', url).ended);
    for (const { code, stderr } of await Promise.all(both)) expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const one of [a, b]) await until(connected(one), has, { n: 1n });
  });

  test('is not given tables of another cluster, and one server without replicas none of a cluster', async () => {
    for (const command of ['init', 'upgrade'])
      expect(await fleet(command, '--cluster', 'other')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('are replicated in the cluster main: pass --cluster main, or leave it out'),
      });
    const [[a]] = servers as [[ClickHouseServer]];
    const alone = (command: string, ...more: string[]) =>
      start('fleet', command, '--url', a.url, '--database', 'alone', ...more).ended;
    expect(await alone('init')).toMatchObject({ code: 0, stderr: '' });
    for (const command of ['init', 'upgrade'])
      expect(await alone(command, '--cluster', 'main')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('the tables of alone are not replicated: leave out --cluster'),
      });
  });

  test('with a table that is not replicated like the others is left alone', async () => {
    const [[a]] = servers as [[ClickHouseServer]];
    await connected(a).run(sql`DROP TABLE loss`);
    await connected(a).run(sql`CREATE TABLE loss (recording UInt64) ENGINE = ReplacingMergeTree() ORDER BY recording`);
    expect(await fleet('upgrade')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/kreplay.meta is replicated, kreplay.loss is not: drop the one that is wrong/),
    });
    await connected(a).run(sql`DROP TABLE loss`);
    expect((await fleet('upgrade')).stdout).toContain(': added loss\n');
  });

  test('has each row once, whichever replicas it was sent to, and gives all shards’ rows', async () => {
    const [[a, b], [c]] = servers as [[ClickHouseServer, ClickHouseServer], [ClickHouseServer]];
    const into = { table: 'segment', columns: COLUMNS };
    const numbers = Array.from({ length: 100 }, (_, i) => BigInt(i));
    await connected(a).insert(into, () => [segments(1n, numbers)]);
    // The same rows go to the other replica as after a lost answer, in another second.
    await sleep(1100);
    await connected(b).insert(into, () => [segments(1n, numbers)]);
    await connected(c).insert(into, () => [segments(2n, numbers)]);
    await until(connected(b), SUM, { rows: 100n, numbers: 4950n });
    await until(connected(a), SUM, { rows: 100n, numbers: 4950n });
    await until(connected(b), SUM_OF_ALL, { rows: 200n, numbers: 9900n });
  });

  test('takes rows while a replica is away, which gets them when it is back', async () => {
    const [[a, b]] = servers as [[ClickHouseServer, ClickHouseServer]];
    const shard = connected(a, b);
    await rowsOf(shard, SUM);
    await a.kill();
    await shard.insert({ table: 'segment', columns: COLUMNS }, () => [segments(3n, [1000n])]);
    await a.restart();
    await until(connected(a), SUM, { rows: 101n, numbers: 5950n });
  });
});
