/** Tests servers that take connections and never answer: commands end or say what they wait for, and SIGTERM ends them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readPosition } from '../../agent/ship/position.ts';
import { closeAll, listener } from '../clickhouse/connected.ts';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { type Running, start } from '../daemon/command_line.ts';
import { appendRows, newFolder, recorded } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';
import { countAt } from './centre.ts';
import { emptyFleet, endShippers, expectAll, isThere, shipOnce, startFleet, startShip, stateOf } from './fleet.ts';
import { type Here, shipHere, startHere } from './here.ts';
import { liveWriter, loadRows, randomNumbers, recordedInSegments } from './load.ts';

/** Less than the silence that an insert of many events is allowed, and more than a question and a slow machine take. */
const SAID_MS_MAX = 30_000;
/** Less than the silence after which a question is given up. */
const ENDED_MS_MAX = 8_000;
const SILENT = /does not answer/;
const random = randomNumbers(3);

let server: ClickHouseServer;
let stopped: ClickHouseServer;
/** Both wait for the same silence, so they are asked at the same time. */
let ofCommands: Promise<number>;
let ofSecondQuestion: Promise<number>;

beforeAll(async () => {
  [server, stopped] = await Promise.all([startFleet(), startFleet()]);
  ofCommands = tookMs(silenceOfAllCommands());
  ofSecondQuestion = silenceAfterAnswers();
  for (const work of [ofCommands, ofSecondQuestion]) work.catch(() => {});
});
afterAll(async () => {
  for (const one of [server, stopped]) one?.child.kill('SIGCONT');
  await endShippers();
  closeAll();
  await endServers();
});

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

const expectEnds = async (one: Here) => expect(await tookMs(one.end())).toBeLessThan(ENDED_MS_MAX);

async function silenceOfAllCommands(): Promise<void> {
  const url = await listener((socket) => void socket.on('error', () => {}));
  const [folder, other] = [recorded(loadRows(100)), recorded(loadRows(100))];
  const ships = [startShip(folder, url), startShip(other, url, '--once')];
  const fleets = ['status', 'init'].map((name) => start('fleet', name, '--url', url));
  const config = join(folder, 'kreplay.toml');
  writeFileSync(config, `[ship]\nurl = ["${url}"]\nstate = "${stateOf(folder)}"\n`);
  const doctor = start('doctor', '--data', folder, '--config', config);
  await Promise.all([
    ...ships.map((one) => one.logged(SILENT)),
    ...fleets.map(async ({ ended }) =>
      expect(await ended).toMatchObject({ code: 1, stderr: expect.stringMatching(SILENT) }),
    ),
    doctor.ended.then(({ stdout }) => expect(stdout).toMatch(SILENT)),
  ]);
  for (const one of ships) await expectEndedBySignal(one);
}

/** Returns how long it takes until the shipper says so. */
async function silenceAfterAnswers(): Promise<number> {
  const folder = newFolder();
  const writer = liveWriter(folder);
  appendRows(writer, loadRows(5000));
  const service = startHere(folder, stopped.url);
  await isThere(stopped, 4096);
  // Events that are on their way are waited for longer than a question is.
  while ((readPosition(stateOf(folder))?.number ?? 0) < 4096) await sleep(5);
  stopped.child.kill('SIGSTOP');
  appendRows(writer, loadRows(5000, 5000));
  const silentMs = await tookMs(service.logged(SILENT));
  await expectEnds(service);
  writer.close();
  return silentMs;
}

describe('a server that never answers', () => {
  test('is not waited for when SIGTERM comes before anything is reported', async () => {
    const asked = Promise.withResolvers<void>();
    const url = await listener((socket) => {
      socket.on('error', () => {});
      asked.resolve();
    });
    const service = startShip(recorded(loadRows(100)), url);
    await asked.promise;
    await sleep(100);
    await expectEndedBySignal(service);
    expect((await service.ended).stderr).not.toMatch(SILENT);
  });
});

describe('a server that hangs while events are sent', () => {
  test('is not waited for after SIGTERM, and all arrives when it goes on', async () => {
    const rows = loadRows(6000);
    for (let round = 0; round < times(2); round++) {
      const folder = recordedInSegments(rows, 400);
      const service = startHere(folder, server.url, { eventsMax: 400 });
      while (readPosition(stateOf(folder))?.saidNs === undefined) await sleep(5);
      await sleep(random() * 300);
      server.child.kill('SIGSTOP');
      await sleep(100);
      await expectEnds(service);
      expect(service.log()).not.toMatch(SILENT);
      server.child.kill('SIGCONT');
      await shipHere(folder, server.url);
      await expectAll(server, rows);
      await emptyFleet(server);
    }
  });

  test('ends a command by SIGTERM, and all arrives with the next one', async () => {
    const rows = loadRows(30_000);
    const folder = recorded(rows);
    const service = startShip(folder, server.url, '--group-events', '4096');
    while (readPosition(stateOf(folder))?.saidNs === undefined) await sleep(5);
    server.child.kill('SIGSTOP');
    await sleep(100);
    await expectEndedBySignal(service);
    server.child.kill('SIGCONT');
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
    expect(await countAt(server, 'SELECT uniqExact(number) FROM kreplay.event')).toBe(rows.length);
  });
});

describe('a server that never answers, or no more,', () => {
  test('is reported by all commands, and waited for by none after SIGTERM', async () => {
    expect(await ofCommands).toBeLessThan(SAID_MS_MAX);
  });

  test('is reported at the next question', async () => {
    expect(await ofSecondQuestion).toBeLessThan(SAID_MS_MAX);
  });
});
