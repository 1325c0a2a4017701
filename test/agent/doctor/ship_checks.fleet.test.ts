/** Tests what `kreplay doctor` says of shipping, with real servers and recordings. */
import { chmodSync, chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Check } from '../../../agent/doctor/check.ts';
import { diagnoseShipping } from '../../../agent/doctor/ship_checks.ts';
import { ACCOUNTS, type ClickHouseServer, endServers, freePort, startServer } from '../../clickhouse/server.ts';
import { newAuthority, newCertificate } from '../../daemon/certificates.ts';
import { newFolder, recorded, recordingPath, START } from '../../daemon/recorded.ts';
import { initFleet, startFleet, stateOf } from '../../ship/fleet.ts';
import { shipHere } from '../../ship/here.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterAll(endServers);

const rows = Array.from({ length: 5000 }, (_, i) => ({ at: START + BigInt(i) }));

type Options = Parameters<typeof diagnoseShipping>;

async function checks(
  { folder = newFolder(), ...settings }: Partial<Options[0]['server']> & { folder?: string },
  host: Partial<Options[1]> = {},
): Promise<Map<string, Check>> {
  const found = await diagnoseShipping(
    { server: { urls: [server.url], database: 'kreplay', ...settings }, folder },
    { dataFolder: newFolder(), retention: {}, bytesPerDay: undefined, ...host },
  );
  expect(found.filter(({ state }) => state === 'failed')).toEqual([]);
  return new Map(found.map((check) => [check.name, check]));
}

function passwordFile(password: string): string {
  const path = join(newFolder(), 'password');
  writeFileSync(path, password, { mode: 0o600 });
  return path;
}

describe('the server of a fleet', () => {
  test('18.16 with an account that may do everything is fit for trials', async () => {
    const folder = recorded(rows);
    await shipHere(folder, server.url);
    const found = await checks({ folder: stateOf(folder) }, { dataFolder: folder, bytesPerDay: 1e9 });
    expect([...found.keys()]).toEqual(
      ['server', 'version', 'schema', 'clock', 'account', 'claim', 'position', 'outage'].map((one) => `ship ${one}`),
    );
    expect(found.get('ship server')).toMatchObject({ state: 'ok', text: `${server.url} answers, ClickHouse 18.16.1` });
    expect(found.get('ship version')).toMatchObject({ state: 'warning', text: 'ClickHouse 18.16.1 is for trials' });
    expect(found.get('ship schema')).toMatchObject({ state: 'ok' });
    expect(found.get('ship clock')).toMatchObject({ state: 'ok', facts: { uncertainty_seconds: expect.any(Number) } });
    expect(found.get('ship account')).toMatchObject({
      state: 'warning',
      text: 'inserts, and can read the events of all nodes',
      advice: '18.16.1 knows no rights by table, so it cannot be restricted',
    });
    expect(found.get('ship claim')).toMatchObject({ state: 'ok', text: 'this recording is shipped from here' });
    expect(found.get('ship outage')!.text).toMatch(/^without a server the recording lasts .*; 0 events waiting now$/);
    expect(await server.sql('SELECT count() FROM kreplay.event')).toEqual(Buffer.from('5000\n'));
  });

  test('an account that may only read cannot ship', async () => {
    const found = await checks({ user: 'reader', passwordFile: passwordFile(ACCOUNTS.reader) });
    expect(found.get('ship account')).toMatchObject({
      state: 'warning',
      text: expect.stringMatching(/^cannot insert: .*may only read/),
    });
  });

  test('a wrong password, a missing file and a server that is away are named', async () => {
    const wrong = await checks({ user: 'reader', passwordFile: passwordFile('wrong') });
    expect(wrong.get('ship server')).toMatchObject({ state: 'warning', text: expect.stringContaining('account') });
    expect([...wrong.keys()]).toEqual(['ship server', 'ship position', 'ship outage']);
    const missing = await checks({ user: 'reader', passwordFile: '/missing' });
    expect(missing.get('ship server')).toMatchObject({ state: 'warning', text: 'there is no /missing' });
    const away = `http://127.0.0.1:${await freePort()}`;
    const one = await checks({ urls: [away, server.url] });
    expect(one.get('ship server')).toMatchObject({
      state: 'warning',
      text: `${server.url} answers, ClickHouse 18.16.1; ${away} cannot be reached: ECONNREFUSED`,
      advice: 'events go to the others meanwhile',
    });
    expect(one.get('ship schema')).toMatchObject({ state: 'ok' });
  });

  test('tables that are missing are named, and nothing is asked of them', async () => {
    const found = await checks({ database: 'nothing' });
    expect(found.get('ship schema')).toMatchObject({ state: 'warning', text: expect.stringContaining('fleet init') });
    expect(found.has('ship account')).toBe(false);
  });

  test('a recording that another node ships is not ours', async () => {
    const folder = recorded(rows.slice(0, 10));
    await shipHere(folder, server.url);
    rmSync(stateOf(folder), { recursive: true });
    const found = await checks({ folder: stateOf(folder) }, { dataFolder: folder });
    expect(found.get('ship claim')).toMatchObject({
      state: 'warning',
      text: expect.stringContaining('is shipped by another process'),
    });
    expect((await checks({})).get('ship claim')).toMatchObject({ state: 'unknown' });
  });

  test('certificates have days left, also those that are not trusted', async () => {
    const folder = newFolder();
    const authority = newAuthority(folder);
    const secure = await startServer({ tls: { certificate: newCertificate(folder, 'server', authority), authority } });
    const client = newCertificate(folder, 'client', authority);
    await secure.sql('CREATE DATABASE IF NOT EXISTS kreplay');
    const found = await checks({ urls: [secure.url], tls: { ca: authority.cert, ...client } });
    expect(found.get('ship server')).toMatchObject({ state: 'ok' });
    // They were made for two days.
    expect(found.get('ship certificate')).toMatchObject({
      state: 'warning',
      text: `${secure.url}: 1 day left; ${client.cert}: 1 day left; ${authority.cert}: 1 day left`,
      facts: { days_left: 1 },
    });
    const other = newAuthority(folder, 'other');
    const stranger = newCertificate(folder, 'stranger', authority);
    const untrusted = await checks({ urls: [secure.url], tls: { ca: other.cert, ...stranger } });
    expect(untrusted.get('ship server')).toMatchObject({
      state: 'warning',
      text: expect.stringContaining('cannot be trusted'),
    });
    expect(untrusted.get('ship certificate')!.text).toContain(`${secure.url}: 1 day left`);
  });
});

describe('what this host keeps', () => {
  const away = () => ({ urls: ['http://127.0.0.1:9'] });

  test('lasts for as long as its limit at the rate of now', async () => {
    const retention = { retainBytes: 10e9 };
    const lasting = async (bytesPerDay: number | undefined) =>
      (await checks(away(), { retention, bytesPerDay })).get('ship outage')!;
    expect(await lasting(4e9)).toMatchObject({
      state: 'ok',
      text: 'without a server the recording lasts 2.5 days at 4 GB a day',
      facts: { days: 2.5 },
    });
    expect(await lasting(40e9)).toMatchObject({ state: 'warning', advice: expect.stringContaining('retain-bytes') });
    expect(await lasting(undefined)).toMatchObject({ state: 'ok', text: expect.stringContaining('not known') });
    // An age removes nothing that waits, when the agent knows what does.
    const folder = recorded(rows.slice(0, 10));
    const kept = { retention: { ...retention, retainAge: 1n }, dataFolder: folder, bytesPerDay: 4e9 };
    const text = (await checks({ ...away(), folder: newFolder() }, kept)).get('ship outage')!.text;
    expect(text).toBe('without a server the recording lasts 2.5 days at 4 GB a day; 10 events waiting now');
  });

  test('is removed by its age although it was not shipped, unless the agent reads the position', async () => {
    const data = recorded(rows.slice(0, 10));
    const folder = newFolder();
    const path = join(folder, 'position.json');
    const access = async (retention: Options[1]['retention']) =>
      (await checks({ ...away(), folder }, { dataFolder: data, retention })).get('ship position')!;
    expect(await access({})).toMatchObject({ state: 'ok' });
    const advice = `set retain-unshipped = "${path}" in [agent]`;
    expect(await access({ retainAge: 1n })).toMatchObject({ state: 'warning', advice });
    expect(await access({ retainAge: 1n, retainUnshipped: '/other' })).toMatchObject({ state: 'warning', advice });
    const set = { retainAge: 1n, retainUnshipped: path };
    expect(await access(set)).toMatchObject({ state: 'ok', text: expect.stringContaining('nothing was shipped yet') });
  });

  const asRoot = process.getuid!() === 0 ? test : test.skip;
  asRoot('needs a position that the user of the agent may read', async () => {
    const data = recorded(rows.slice(0, 10));
    await shipHere(data, server.url);
    const folder = stateOf(data);
    const path = join(folder, 'position.json');
    const [agent, group] = [65_001, 65_002];
    chownSync(recordingPath(data), agent, group);
    const set = { retainAge: 1n, retainUnshipped: path };
    const access = async () =>
      (await checks({ ...away(), folder }, { dataFolder: data, retention: set })).get('ship position')!;
    chownSync(folder, 65_003, 65_002);
    chownSync(path, 65_003, 65_002);
    chmodSync(folder, 0o750);
    chmodSync(path, 0o640);
    expect(await access()).toMatchObject({ state: 'ok', text: `the agent reads ${path}` });
    chmodSync(path, 0o600);
    expect(await access()).toMatchObject({ state: 'warning', text: expect.stringContaining(`cannot read ${path}`) });
    chmodSync(path, 0o644);
    chmodSync(folder, 0o700);
    expect(await access()).toMatchObject({ state: 'warning', text: expect.stringContaining(`cannot read ${folder}`) });
  });

  test('a position that cannot be used is named', async () => {
    const folder = newFolder();
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'position.json'), '{');
    const found = await checks({ ...away(), folder });
    expect(found.get('ship position')).toMatchObject({ state: 'warning', text: expect.stringContaining('is damaged') });
  });
});

describe('a database of an older kreplay', () => {
  test('must be upgraded', async () => {
    const older = await startServer();
    await initFleet(older);
    await older.sql(`INSERT INTO kreplay.meta (key, at, value) VALUES ('schema_version', 9000000000000000000, '0')`);
    const found = await checks({ urls: [older.url] });
    expect(found.get('ship schema')!.state).toBe('warning');
  });
});
