/** Tests `kreplay fleet` as operators run it: on Debian's server, with its accounts, and on what is no server. */
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Connection, connect } from '../../agent/clickhouse/connection/connection.ts';
import { readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';
import { start, startWith } from '../daemon/command_line.ts';
import { NODE, recorded, START } from '../daemon/recorded.ts';
import { columnOf } from './columns.ts';
import { type ClickHouseServer, endServers, startServer } from './server.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-fleet-'));
const KNOWN_MS_MAX = 30_000;
let server: ClickHouseServer;

beforeAll(async () => {
  server = await startServer();
});
afterAll(async () => {
  await endServers();
  rmSync(folder, { recursive: true });
});

/** Waits until the server lets this account in: it looks at its files every two seconds. */
async function isKnown(account: Connection): Promise<void> {
  const isIn = () =>
    account.run(sql`SELECT 1`).then(
      () => true,
      () => false,
    );
  for (const deadlineMs = performance.now() + KNOWN_MS_MAX; !(await isIn()); await sleep(100))
    if (performance.now() > deadlineMs) await account.run(sql`SELECT 1`);
  account.close();
}

const fleet = (...args: string[]) => start('fleet', ...args, '--url', server.url).ended;

describe('kreplay fleet', () => {
  test('makes tables, says what is there, and may be repeated', async () => {
    expect(await fleet('status')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/for trials only.*\nno tables: `kreplay fleet init`/),
    });
    expect(await fleet('upgrade')).toMatchObject({ code: 1, stderr: expect.stringContaining('kreplay fleet init') });
    const first = await fleet('init');
    expect(first).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/schema 1: added meta, event, by_id/),
      stderr: '',
    });
    expect(first.stdout).toContain('no accounts were made');
    expect(await fleet('init')).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing to add') });
    expect(await fleet('init', '--bucket', '10s')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('cannot change'),
    });
    const connection = connect({ urls: [server.url], database: 'kreplay' });
    await connection.run(sql`ALTER TABLE event DROP COLUMN sys_write_fd`);
    const node = [
      columnOf('recording', 'UInt64', [2n ** 64n - 1n]),
      columnOf('at', 'UInt64', [7n]),
      columnOf('node', 'LowCardinality(String)', ['web-1\x1b[31m']),
      columnOf('alive_ns', 'UInt64', [1_800_000_000_000_000_001n]),
      columnOf('backlog', 'UInt64', [12n]),
    ];
    await connection.insert({ table: 'node', columns: node.map(({ name }) => name) }, () => [
      createBlockEncoder().encode(node, 1),
    ]);
    connection.close();
    const text = (await fleet('status')).stdout;
    expect(text).toContain('`kreplay fleet upgrade` adds event.sys_write_fd');
    expect(text).toMatch(/\nnode +1 +[\d.]+ k?B +1\n/);
    expect(text).toMatch(/\n1 node\nNODE +ALIVE +BACKLOG\nweb-1\S+ +2027-01-15T08:00:00.000Z +12\n/);
    expect(text).not.toContain('\x1b');
    expect(await fleet('upgrade')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('added event.sys_write_fd'),
    });
    const { stdout } = await fleet('status', '--output', 'json');
    expect(JSON.parse(stdout)).toMatchObject({
      url: server.url,
      version: '18.16.1',
      supported: false,
      schema: { version: 1, known_version: 1, missing: [] },
      disks: null,
      node_count: 1,
      nodes: [{ recording: 'ffffffffffffffff', backlog: 12 }],
    });
    expect(stdout).toContain('"alive_ns":1800000000000000001');
  });

  test('counts all nodes, however many it lists', async () => {
    expect(await fleet('init', '--database', 'many')).toMatchObject({ code: 0 });
    await server.sql('INSERT INTO many.node (recording, at) SELECT intDiv(number, 2), number FROM numbers(20014)');
    const status = await fleet('status', '--database', 'many');
    expect(status.stdout).toMatch(/\n10007 nodes\n/);
    expect(status.stdout).toMatch(/\nand 9987 more: --output json has the first 10000\n$/);
    const { node_count, nodes } = JSON.parse((await fleet('status', '--database', 'many', '--output', 'json')).stdout);
    expect([node_count, nodes.length]).toEqual([10007, 10000]);
  });

  test("status and retain take their servers from the package's configuration and its drop-ins", async () => {
    const file = join(folder, 'kreplay.toml');
    copyFileSync(join(import.meta.dirname, '../../daemon/package/debian/kreplay.toml'), file);
    const run = (command: string) => startWith({ KREPLAY_CONFIG: file }, 'fleet', command, '--output', 'json').ended;
    expect(await run('status')).toMatchObject({ code: 2, stderr: expect.stringContaining('pass --url, or set `url`') });
    expect(await fleet('init', '--database', 'configured')).toMatchObject({ code: 0 });
    mkdirSync(join(folder, 'kreplay.d'));
    const keys = `url = ["${server.url}"]\ndatabase = "configured"\nage = "7d"\n`;
    writeFileSync(join(folder, 'kreplay.d/fleet.toml'), `log-level = "warn"\n[fleet]\n${keys}`);
    const status = await run('status');
    expect({ ...status, stdout: '' }).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(JSON.parse(status.stdout)).toMatchObject({ url: server.url, schema: { missing: [] }, node_count: 0 });
    const retained = await run('retain');
    expect(retained).toMatchObject({ code: 0, stderr: expect.stringContaining('only --age works there') });
    expect(JSON.parse(retained.stdout)).toMatchObject({ urls: [server.url], dropped: { hours: 0 } });
    writeFileSync(join(folder, 'kreplay.d/wrong.toml'), 'lgo-level = "warn"\n[fleet]\nfre = "7%"\n');
    expect(await run('status')).toMatchObject({ code: 2, stderr: expect.stringMatching(/log-level\?(.|\n)*free\?/) });
  });

  test('prints accounts for a server without rights by table, which work there', async () => {
    const passwords = join(folder, 'passwords');
    const { code, stdout } = await fleet('init', '--database', 'tenant', '--accounts', passwords);
    expect(code).toBe(0);
    expect(stdout).toContain('this version has no GRANT');
    expect(readdirSync(passwords)).toEqual(['kr_admin', 'kr_pin', 'kr_read', 'kr_ship']);
    expect(statSync(join(passwords, 'kr_ship')).mode & 0o777).toBe(0o600);
    for (const name of readdirSync(passwords))
      expect(stdout).not.toContain(readFileSync(join(passwords, name), 'utf8').trim());
    const again = await fleet('init', '--database', 'tenant', '--accounts', passwords);
    expect(again.stdout.split('<yandex>')[1]).toBe(stdout.split('<yandex>')[1]);
    mkdirSync(join(server.folder, 'users.d'), { recursive: true });
    writeFileSync(join(server.folder, 'users.d/kreplay.xml'), stdout.slice(stdout.indexOf('<yandex>')));
    const as = (user: string) => ['--database', 'tenant', '--user', user, '--password-file', join(passwords, user)];
    const connectedAs = (user: string) =>
      connect({ urls: [server.url], database: 'tenant', user, passwordFile: join(passwords, user) });
    await isKnown(connectedAs('kr_admin'));
    expect(await fleet('upgrade', ...as('kr_admin'))).toMatchObject({ code: 0 });
    expect(await fleet('status', ...as('kr_read'))).toMatchObject({
      stderr: '',
      stdout: expect.stringContaining('schema 1'),
    });
    const reader = connectedAs('kr_read');
    await expect(reader.run(sql`DROP TABLE event`)).rejects.toMatchObject({ code: 164 });
    await expect(rowsOf(reader, sql`SELECT * FROM kreplay.node`)).rejects.toMatchObject({
      code: 291,
      meaning: 'blocked',
    });
    reader.close();
    expect(await fleet('upgrade', ...as('kr_read'))).toMatchObject({ code: 1 });
    const data = recorded([{ at: START }]);
    const ship = (user: string) =>
      start('ship', '--once', '--data', data, '--url', server.url, '--state', join(folder, user), ...as(user)).ended;
    expect(await ship('kr_read')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('the account may only read'),
    });
    expect(await ship('kr_ship')).toMatchObject({ code: 0 });
    expect((await fleet('status', ...as('kr_read'))).stdout).toContain(NODE);
  });

  test('prints accounts with the prefix that is asked for', async () => {
    const passwords = join(folder, 'prefixed');
    const prefixed = ['--accounts', passwords, '--account-prefix', 'b_'];
    const { code, stdout } = await fleet('init', '--database', 'prefixed', ...prefixed);
    expect(code).toBe(0);
    expect(readdirSync(passwords)).toEqual(['b_admin', 'b_pin', 'b_read', 'b_ship']);
    expect(stdout).toMatch(/so b_ship can read events.\nPut this into users.d\/prefixed.xml/);
    expect(stdout).toMatch(/<b_read>.*<b_ship>/s);
    expect(stdout).not.toContain('kr_');
  });

  test('does not make accounts with passwords that others can read', async () => {
    const open = join(folder, 'open');
    mkdirSync(open);
    writeFileSync(join(open, 'kr_ship'), 'secret', { mode: 0o644 });
    const { code, stderr } = await fleet('init', '--database', 'other', '--accounts', open);
    expect(code).toBe(2);
    expect(stderr).toMatch(/kr_ship is open to other users/);
    expect(stderr).not.toContain('secret');
  });
});

test.each([
  ['without a server', ['init'], /required option '--url/],
  ['without a server in the configuration', ['retain'], /pass --url, or set `url`/],
  [
    'with a password in the URL',
    ['status', '--url', 'https://u:secret@db.example:8443'],
    /must not contain user or password/,
  ],
  ['without encryption', ['init', '--url', 'http://db.example:8123'], /unencrypted/],
  ['with a name that is none', ['init', '--url', 'http://127.0.0.1:1', '--database', "x'; DROP"], /letters, digits/],
  [
    'with a bucket that does not divide an hour',
    ['init', '--url', 'http://127.0.0.1:1', '--bucket', '7s'],
    /divide an hour/,
  ],
])('kreplay fleet %s is wrong usage', async (_, args, message) => {
  const { code, stderr } = await start('fleet', ...args).ended;
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
});

test('kreplay fleet names a server that is not there', async () => {
  const { code, stderr } = await start('fleet', 'status', '--url', 'http://127.0.0.1:1').ended;
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: 'kreplay: http://127.0.0.1:1 cannot be reached: ECONNREFUSED\n',
  });
});
