/** Tests `kreplay fleet retain`: what goes, what is counted, what is refused, and that interruptions change nothing. */
import { once } from 'node:events';
import { closeSync, fchmodSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { recordedOn, START } from '../../daemon/recorded.ts';
import { HOUR, order, SECOND } from '../../daemon/store/fleet/two_nodes.ts';
import { times } from '../../repeats.ts';
import { startFleet } from '../../ship/fleet.ts';
import { shipHere } from '../../ship/here.ts';
import { type ClickHouseServer, endServers, startServer } from '../server.ts';
import { ageOf, fillFleet, isDropping, retainCommand, retainHere, startRetain, stateAt } from './old_fleet.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
beforeEach(async () => {
  await fillFleet(server);
});
afterAll(endServers);

/** A retention of two hours takes some tenths of a second once it has noted what it drops. */
const DROPPING_MS = 400;

const TWO_HOURS = {
  oldest: 2,
  isInterrupted: false,
  losses: [
    ['node-a', 'retention', 130, 0, 7200],
    ['node-b', 'retention', 125, 0, 7200],
  ],
  events: [0, 0, 120, 120],
  firstHours: { transaction: 2, stat: 2, name: 2, segment: 2 },
  days: expect.any(Number),
};

describe('kreplay fleet retain', () => {
  test('drops the hours that are older than the age, and counts what goes once', async () => {
    const before = await stateAt(server);
    expect(before).toMatchObject({ oldest: undefined, losses: [], events: [120, 135, 120, 120] });
    const dry = await retainCommand(server, '--age', ageOf(2n), '--dry-run');
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringMatching(/would drop 2 hours: 255 events, /) });
    expect(await stateAt(server)).toEqual(before);

    const done = await retainCommand(server, '--age', ageOf(2n));
    expect(done).toMatchObject({
      ...{ code: 0, stderr: '' },
      stdout: expect.stringMatching(/: dropped 2 hours: 255 events, .*; kept from 2025-11-21T02:00:00.000Z on\n$/),
    });
    expect(await stateAt(server)).toEqual(TWO_HOURS);
    expect(await retainCommand(server, '--age', ageOf(2n), '--output', 'json')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('"dropped":{"hours":0,"events":0,'),
    });
    expect(await stateAt(server)).toEqual(TWO_HOURS);

    await retainHere(server, 3n);
    expect(await stateAt(server)).toMatchObject({
      ...{ oldest: 3, events: [0, 0, 0, 120] },
      losses: [
        ['node-a', 'retention', 190, 0, 10_800],
        ['node-b', 'retention', 185, 0, 10_800],
      ],
    });
  });

  test('drops what comes late for hours that were dropped, and a day when all its hours are gone', async () => {
    await retainHere(server, 2n);
    await shipHere(recordedOn('node-a', order('a', 7, START - 30n * HOUR)), server.url);
    await shipHere(recordedOn('node-a', order('a', 8, START + 60n * SECOND)), server.url);
    await retainHere(server, 2n);
    expect(await stateAt(server)).toMatchObject({
      ...{ oldest: 2, events: [0, 0, 120, 120] },
      losses: [['node-a', 'retention', 145, -30 * 3600, 7200], TWO_HOURS.losses[1]],
    });
    await retainHere(server, 24n);
    expect(await stateAt(server)).toMatchObject({ oldest: 24, events: [0, 0, 0, 0], days: 0 });
  });

  test('ends in the same state, wherever it is killed', async () => {
    let interrupted = 0;
    const triesMax = times(3);
    for (let tries = 0; tries < triesMax; tries++) {
      const running = startRetain(server, '--age', ageOf(2n));
      await isDropping(server, running);
      await Promise.race([sleep((tries / triesMax) * DROPPING_MS), once(running.child, 'exit')]);
      running.child.kill('SIGKILL');
      await running.ended;
      const { isInterrupted, oldest } = await stateAt(server);
      if (isInterrupted) interrupted++;
      expect(isInterrupted || oldest === 2).toBe(true);
      if (tries % 3 === 2) {
        await retainHere(server, 2n);
        expect(await stateAt(server)).toEqual(TWO_HOURS);
        await fillFleet(server);
      }
    }
    expect(interrupted).toBeGreaterThan(0);
  }, 180_000);

  test('says what it lacks', async () => {
    const noDisk = await retainCommand(server, '--free', '15%');
    expect(noDisk).toMatchObject({ code: 1, stderr: expect.stringMatching(/18\.16\..* only --age works there/) });
    const both = await retainCommand(server, '--free', '15%', '--age', ageOf(2n));
    expect(both).toMatchObject({ code: 0, stderr: expect.stringContaining('only --age works there') });
    expect(await stateAt(server)).toEqual(TWO_HOURS);
    expect(await retainCommand(server, '--age', '5m')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('at least 1h'),
    });
    expect(await retainCommand(server, '--free', '15')).toMatchObject({ code: 2 });
  });

  test('goes on when the server takes such a drop again', async () => {
    const careful = await startServer({ more: '<max_partition_size_to_drop>1</max_partition_size_to_drop>' });
    await fillFleet(careful);
    await expect(retainHere(careful, 2n)).rejects.toThrow('max_partition_size_to_drop');
    expect((await stateAt(careful)).isInterrupted).toBe(true);
    const flags = join(careful.folder, 'data', 'flags');
    mkdirSync(flags, { recursive: true });
    // The server takes the file as leave for one drop, and removes it.
    const leave = setInterval(() => {
      const file = openSync(join(flags, 'force_drop_table'), 'w');
      fchmodSync(file, 0o666);
      closeSync(file);
    }, 1);
    for (let tries = 0; tries < 20 && (await stateAt(careful)).isInterrupted; tries++)
      await retainHere(careful, 2n).catch(() => {});
    clearInterval(leave);
    expect(await stateAt(careful)).toEqual(TWO_HOURS);
  }, 180_000);
});
