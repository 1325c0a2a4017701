/** Tests a service that an operator has to help: it goes on by itself once the tables are there. */
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { start } from '../daemon/command_line.ts';
import { recorded } from '../daemon/recorded.ts';
import { emptyFleet, expectAll, initFleet, isThere, startFleet } from './fleet.ts';
import { endShippingHere, startHere } from './here.ts';
import { loadRows } from './load.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterEach(async () => {
  await endShippingHere();
  await emptyFleet(server);
});
afterAll(endServers);

const rows = loadRows(900);
const GOES_ON = /"msg":"shipping goes on"/;

describe('a service', () => {
  test('that finds no tables ships all after `kreplay fleet init`', async () => {
    await server.sql('DROP DATABASE kreplay');
    const { logged } = startHere(recorded(rows), server.url);
    await logged(/kreplay fleet init.*an operator must act/);
    await initFleet(server);
    await logged(GOES_ON);
    await isThere(server, rows.length);
    await expectAll(server, rows);
  });

  test('that finds tables of an older kreplay ships all after `kreplay fleet upgrade`', async () => {
    await server.sql('ALTER TABLE kreplay.by_id DROP COLUMN errors');
    await server.sql('ALTER TABLE kreplay.segment DROP COLUMN end_max');
    const { logged } = startHere(recorded(rows), server.url);
    await logged(/kreplay fleet upgrade.*an operator must act/);
    const upgrade = await start('fleet', 'upgrade', '--url', server.url).ended;
    expect(upgrade).toMatchObject({ code: 0, stdout: expect.stringMatching(/by_id.errors.*segment.end_max/) });
    await logged(GOES_ON);
    await isThere(server, rows.length);
    await expectAll(server, rows);
  });

  test('whose tables are dropped within a group ships that group to the new ones', async () => {
    const { logged } = startHere(recorded(rows), server.url, { eventsMax: 400 });
    await server.sql('DROP TABLE kreplay.segment');
    await logged(/tables do not fit.*an operator must act/);
    await server.sql('DROP DATABASE kreplay');
    await initFleet(server);
    await logged(GOES_ON);
    await isThere(server, rows.length);
    await expectAll(server, rows);
  });
});
