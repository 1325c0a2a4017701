/** Tests kills of shipper and server at any time while events are recorded: each event arrives, and counts once. */
import { setTimeout as sleep } from 'node:timers/promises';
import { readPosition } from '../../agent/ship/position.ts';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { newFolder } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';
import { endShippers, expectAll, mergeFleet, startFleet, startShip, stateOf } from './fleet.ts';
import { shipHere } from './here.ts';
import { randomNumbers, startLoad } from './load.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterEach(endShippers);
afterAll(endServers);

/** A sixth of them are kills of the server. */
const KILLS = times(6);
const SERVER_KILLS = Math.floor(KILLS / 6);
/** All of them may miss a group: the shipper is killed when it has begun one, until a kill is quick enough. */
const ROUNDS_MAX = 6;
/** Each takes a second, or more on a busy machine, and so does it to compare what was recorded in that time. */
const TEST_MS = 60_000 + KILLS * ROUNDS_MAX * 4_000;
/** A group takes some tenths of a second: many kills come within one. */
const ALIVE_MS_MAX = 400;

/** Waits until a shipper has asked the server what it must know, which it notes, and is about to send. */
async function isGreeted(folder: string, saidNs: string | undefined): Promise<void> {
  while (readPosition(stateOf(folder))?.saidNs === saidNs) await sleep(5);
}

/** Waits until the group that the position names is one that is being sent. */
async function hasBegun(folder: string): Promise<void> {
  while (!readPosition(stateOf(folder))?.group) await sleep(1);
}

/** These kills, and more of the shipper until `isEnough`. */
function* killsUntil(kills: readonly string[], isEnough: () => boolean): Generator<string> {
  yield* kills;
  for (let more = KILLS; more < ROUNDS_MAX * KILLS && !isEnough(); more++) yield 'shipper in a group';
}

describe(`${KILLS} kills of shipper and server`, () => {
  test(
    'at random times, while events are recorded, lose and double nothing',
    async () => {
      const folder = newFolder();
      const load = startLoad(folder, 100);
      const random = randomNumbers(Date.now());
      const kills = [
        ...Array.from({ length: KILLS - SERVER_KILLS }, () => 'shipper'),
        ...Array.from({ length: SERVER_KILLS }, () => 'server'),
      ].sort(() => random() - 0.5);
      let withinGroups = 0;
      for (const killed of killsUntil(kills, () => withinGroups > 0)) {
        // Groups are made otherwise each time, except the one that was begun.
        const groupEvents = String(4096 + Math.floor(random() * 10_000));
        const saidNs = readPosition(stateOf(folder))?.saidNs;
        const shipper = startShip(folder, server.url, '--flush', '1s', '--group-events', groupEvents);
        await isGreeted(folder, saidNs);
        if (killed === 'shipper in a group') await hasBegun(folder);
        else await sleep(random() * ALIVE_MS_MAX);
        if (killed === 'server') {
          await server.kill();
          await sleep(random() * 200);
        }
        shipper.child.kill('SIGKILL');
        const { stderr } = await shipper.ended;
        expect(stderr).not.toMatch(/"level":[56]0| {4}at /);
        if (readPosition(stateOf(folder))?.group) withinGroups++;
        if (killed === 'server') await server.restart();
      }
      await load.stop();
      await shipHere(folder, server.url);
      await expectAll(server, load.rows);
      await mergeFleet(server);
      await expectAll(server, load.rows);
      expect(withinGroups).toBeGreaterThan(0);
    },
    TEST_MS,
  );
});
