/** Tests servers that are away, refuse, are full or slow: shipping waits, says why, and goes on. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClickHouseServer, endServers, isInstalled, startServer } from '../clickhouse/server.ts';
import { recorded } from '../daemon/recorded.ts';
import { startFaultProxy } from './fault_proxy.ts';
import { emptyFleet, endShippers, expectAll, isThere, shipOnce, startFleet, startShip, stateOf } from './fleet.ts';
import { loadRows } from './load.ts';

const withServer = isInstalled ? describe : describe.skip;
const isRoot = process.getuid?.() === 0;
let server: ClickHouseServer;
const mounts: string[] = [];

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
});
afterEach(async () => {
  await endShippers();
  for (const mount of mounts.splice(0)) execFileSync('umount', ['-l', mount]);
  if (isInstalled) await emptyFleet(server);
});
afterAll(endServers);

const rows = loadRows(20_000);

function mountSmall(folder: string, size: string): void {
  mkdirSync(folder, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder]);
  mounts.push(folder);
}

withServer('a server that', () => {
  test('is down when shipping begins, and for some seconds later, is waited for', async () => {
    const folder = recorded(rows);
    await server.kill();
    const { ended, logged } = startShip(folder, server.url, '--once', '--group-events', '4096');
    await logged(/cannot be reached/);
    await sleep(2000);
    await server.restart();
    await sleep(600);
    await server.kill();
    await sleep(500);
    await server.restart();
    expect(await ended).toMatchObject({ code: 0 });
    await expectAll(server, rows);
  });

  test.each([
    ['another database', ['--database', 'nothing']],
    ['no tables', ['--database', 'default']],
    ['an unknown account', ['--user', 'stranger']],
    ['an account that may only read', ['--user', 'reader', '--password-file', 'PASSWORD']],
  ] as [string, string[]][])('has %s, which ends a command with the cause', async (_, args) => {
    const folder = recorded(rows);
    const password = join(folder, 'password');
    writeFileSync(password, 'reader', { mode: 0o600 });
    const { code, stderr } = await shipOnce(
      folder,
      server.url,
      ...args.map((arg) => arg.replace('PASSWORD', password)),
    );
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.not.stringContaining('    at ') });
    expect(stderr).toMatch(/kreplay fleet init|account/);
  });

  test('has too many parts is waited for', async () => {
    const folder = recorded(rows);
    // The table as `kreplay fleet init` makes it, with a limit that is reached at once.
    const statement = (await server.sql('SHOW CREATE TABLE kreplay.segment FORMAT TSVRaw')).toString();
    await server.sql('DROP TABLE kreplay.segment');
    await server.sql(`${statement.trim()}, parts_to_throw_insert = 1, parts_to_delay_insert = 1`);
    await server.sql('SYSTEM STOP MERGES');
    const { ended, logged } = startShip(folder, server.url, '--once', '--group-events', '4096');
    await logged(/too many parts/);
    await server.sql('SYSTEM START MERGES');
    await server.sql('DROP TABLE kreplay.segment');
    await server.sql(statement);
    expect(await ended).toMatchObject({ code: 0 });
    await expectAll(server, rows);
  });

  test('is slow gets all', async () => {
    const folder = recorded(rows);
    const proxy = await startFaultProxy(() => server.port);
    proxy.slowDown(30);
    expect(await shipOnce(folder, proxy.url)).toMatchObject({ code: 0, stderr: '' });
    await proxy.close();
    await expectAll(server, rows);
  });
});

const asRoot = isInstalled && isRoot ? describe : describe.skip;

asRoot('a disk that is full', () => {
  test('at the node keeps shipping waiting, and says so', async () => {
    const folder = recorded(rows);
    const state = stateOf(folder);
    mountSmall(state, '64k');
    const filler = join(state, 'filler');
    try {
      writeFileSync(filler, Buffer.alloc(1 << 20));
    } catch {
      // Full.
    }
    const { ended, logged, child } = startShip(folder, server.url, '--flush', '1s');
    await logged(/no space/i);
    await sleep(2500);
    expect(child.exitCode).toBeNull();
    execFileSync('rm', [filler]);
    await logged(/shipping goes on/);
    await isThere(server, rows.length);
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 0 });
    await expectAll(server, rows);
  });

  test('at the server keeps shipping waiting', async () => {
    const small = await startServer();
    await small.kill();
    const data = join(small.folder, 'data');
    renameSync(data, `${data}.before`);
    mountSmall(data, '1200k');
    cpSync(`${data}.before`, data, { recursive: true, preserveTimestamps: true });
    await small.restart();
    await emptyFleet(small);
    const folder = recorded(loadRows(60_000));
    const { ended, logged } = startShip(folder, small.url, '--once');
    await logged(/space/);
    execFileSync('mount', ['-o', 'remount,size=400m', data]);
    expect(await ended).toMatchObject({ code: 0 });
    await expectAll(small, loadRows(60_000));
    await small.kill();
  });
});
