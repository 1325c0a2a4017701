/** Tests servers that take connections and never answer: commands end or say what they wait for, and SIGTERM ends them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readPosition } from '../../agent/ship/position.ts';
import { closeAll, listener } from '../clickhouse/connected.ts';
import { type ClickHouseServer, endServers, isInstalled } from '../clickhouse/server.ts';
import { type Running, start } from '../daemon/command_line.ts';
import { appendRows, newFolder, recorded } from '../daemon/recorded.ts';
import { emptyFleet, endShippers, expectAll, isThere, shipOnce, startFleet, startShip, stateOf } from './fleet.ts';
import { liveWriter, loadRows, randomNumbers } from './load.ts';

const withServer = isInstalled ? describe : describe.skip;
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
});
afterEach(async () => {
  server?.child.kill('SIGCONT');
  await endShippers();
  closeAll();
});
afterAll(endServers);

/** Less than the silence that an insert of many events is allowed, and more than a question and a slow machine take. */
const SAID_MS_MAX = 30_000;
const ENDED_MS_MAX = 3_000;

async function tookMs(work: Promise<unknown>): Promise<number> {
  const sinceMs = performance.now();
  await work;
  return performance.now() - sinceMs;
}

async function expectEndedBySignal({ child, ended }: Running): Promise<void> {
  child.kill('SIGTERM');
  expect(await tookMs(ended)).toBeLessThan(ENDED_MS_MAX);
  expect(await ended).toMatchObject({ code: 0 });
}

describe('a server that never answers', () => {
  test('is reported by all commands, and waited for by none after SIGTERM', async () => {
    const url = await listener((socket) => void socket.on('error', () => {}));
    const [folder, other] = [recorded(loadRows(100)), recorded(loadRows(100))];
    const ships = [startShip(folder, url), startShip(other, url, '--once')];
    const fleets = ['status', 'init'].map((name) => start('fleet', name, '--url', url));
    const config = join(folder, 'kreplay.toml');
    writeFileSync(config, `[ship]\nurl = ["${url}"]\nstate = "${stateOf(folder)}"\n`);
    const doctor = start('doctor', '--data', folder, '--config', config);
    const silent = /does not answer/;
    const said = Promise.all([
      ...ships.map((one) => one.logged(silent)),
      ...fleets.map(async ({ ended }) =>
        expect(await ended).toMatchObject({ code: 1, stderr: expect.stringMatching(silent) }),
      ),
      doctor.ended.then(({ stdout }) => expect(stdout).toMatch(silent)),
    ]);
    expect(await tookMs(said)).toBeLessThan(SAID_MS_MAX);
    for (const one of ships) await expectEndedBySignal(one);
  }, 90_000);

  test('is not waited for when SIGTERM comes before anything is reported', async () => {
    const asked: (() => void)[] = [];
    const isAsked = new Promise<void>((resolve) => void asked.push(resolve));
    const url = await listener((socket) => {
      socket.on('error', () => {});
      asked[0]!();
    });
    const service = startShip(recorded(loadRows(100)), url);
    await isAsked;
    await sleep(100);
    await expectEndedBySignal(service);
  });
});

withServer('a server that hangs while events are sent', () => {
  const random = randomNumbers(3);

  test('is not waited for after SIGTERM, and all arrives when it goes on', async () => {
    for (let round = 0; round < 2; round++) {
      const rows = loadRows(30_000);
      const folder = recorded(rows);
      const service = startShip(folder, server.url, '--group-events', '4096');
      while (readPosition(stateOf(folder))?.saidNs === undefined) await sleep(5);
      await sleep(random() * 1000);
      server.child.kill('SIGSTOP');
      await sleep(300);
      await expectEndedBySignal(service);
      server.child.kill('SIGCONT');
      expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
      await expectAll(server, rows);
      await emptyFleet(server);
    }
  }, 60_000);

  test('is reported at the next question', async () => {
    const folder = newFolder();
    const writer = liveWriter(folder);
    appendRows(writer, loadRows(5000));
    const service = startShip(folder, server.url, '--flush', '1s');
    await isThere(server, 4096);
    server.child.kill('SIGSTOP');
    appendRows(writer, loadRows(5000, 5000));
    expect(await tookMs(service.logged(/does not answer/))).toBeLessThan(SAID_MS_MAX);
    await expectEndedBySignal(service);
    writer.close();
  }, 60_000);
});
