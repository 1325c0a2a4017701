/** Tests servers that are away, refuse, are full or slow: shipping waits, says why, and goes on. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionSettings } from '../../agent/clickhouse/connection/settings.ts';
import { UserError } from '../../agent/process/errors.ts';
import { ACCOUNTS, type ClickHouseServer, endServers, endWithServers } from '../clickhouse/server.ts';
import { startFaultProxy } from './fault_proxy.ts';
import { emptyFleet, endShippers, expectAll, isThere, shipOnce, startFleet } from './fleet.ts';
import { shipHere, startHere } from './here.ts';
import { loadRows, recordedInSegments } from './load.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterEach(async () => {
  await endShippers();
  await emptyFleet(server);
});
afterAll(endServers);

const rows = loadRows(2000);
const GROUPS = { eventsMax: 400 };
const recordedRows = () => recordedInSegments(rows, GROUPS.eventsMax);

describe('a server that', () => {
  test('is down when shipping begins, and for some seconds later, is waited for', async () => {
    const folder = recordedRows();
    await server.kill();
    const { ended, logged } = startHere(folder, server.url, { ...GROUPS, once: true });
    await logged(/cannot be reached/);
    await sleep(500);
    await server.restart();
    await isThere(server, 1);
    await server.kill();
    await sleep(500);
    await server.restart();
    await ended;
    await expectAll(server, rows);
  });

  test.each<[string, Partial<ConnectionSettings> & { password?: string }]>([
    ['another database', { database: 'nothing' }],
    ['no tables', { database: 'default' }],
    ['an unknown account', { user: 'stranger' }],
    ['an account that may only read', { user: 'reader', password: ACCOUNTS.reader }],
  ])('has %s, which ends a command with the cause', async (_, { password = '', ...settings }) => {
    const folder = recordedRows();
    const passwordFile = join(folder, 'password');
    writeFileSync(passwordFile, password, { mode: 0o600 });
    const refused = shipHere(folder, server.url, { settings: { passwordFile, ...settings } });
    const error = await refused.then(() => undefined).catch((error) => error);
    // The command prints no stack of such an error.
    expect(error).toBeInstanceOf(UserError);
    expect(error.message).toMatch(/kreplay fleet init|account/);
  });

  test('refuses ends the command with one line', async () => {
    const { code, stderr } = await shipOnce(recordedRows(), server.url, '--database', 'nothing');
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^kreplay: .*kreplay fleet init.*\n$/) });
  });

  test('has too many parts is waited for', async () => {
    const folder = recordedRows();
    // The table as `kreplay fleet init` makes it, with a limit that is reached at once.
    const statement = (await server.sql('SHOW CREATE TABLE kreplay.segment FORMAT TSVRaw')).toString();
    await server.sql('DROP TABLE kreplay.segment');
    await server.sql(`${statement.trim()}, parts_to_throw_insert = 1, parts_to_delay_insert = 1`);
    await server.sql('SYSTEM STOP MERGES');
    const { ended, logged } = startHere(folder, server.url, { ...GROUPS, once: true });
    await logged(/too many parts/);
    await server.sql('SYSTEM START MERGES');
    await server.sql('DROP TABLE kreplay.segment');
    await server.sql(statement);
    await ended;
    await expectAll(server, rows);
  });

  test('is slow gets all', async () => {
    const folder = recordedRows();
    const proxy = await startFaultProxy(() => server.port);
    endWithServers(() => proxy.close());
    proxy.slowDown(30);
    expect((await shipHere(folder, proxy.url)).log).toBe('');
    await expectAll(server, rows);
  });
});
