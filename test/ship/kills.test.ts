/** Tests kills of shipper and server at any time while events are recorded: each event arrives, and counts once. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClickHouseServer, endServers, isInstalled } from '../clickhouse/server.ts';
import { newFolder } from '../daemon/recorded.ts';
import { endShippers, expectAll, mergeFleet, shipOnce, startFleet, startShip } from './fleet.ts';
import { randomNumbers, startLoad } from './load.ts';

const withServer = isInstalled ? describe : describe.skip;
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
});
afterEach(endShippers);
afterAll(endServers);

const SHIPPER_KILLS = 50;
const SERVER_KILLS = 10;
const TEST_MS = 90_000;
/** A shipper sends its first events after some 400 ms. */
const [ALIVE_MS_MIN, ALIVE_MS_MAX] = [300, 900];

withServer(`${SHIPPER_KILLS + SERVER_KILLS} kills of shipper and server`, () => {
  test(
    'at random times, while events are recorded, lose and double nothing',
    async () => {
      const folder = newFolder();
      const load = startLoad(folder, 200);
      const random = randomNumbers(Date.now());
      const kills = [
        ...Array.from({ length: SHIPPER_KILLS }, () => 'shipper'),
        ...Array.from({ length: SERVER_KILLS }, () => 'server'),
      ].sort(() => random() - 0.5);
      for (const killed of kills) {
        // Groups are made otherwise each time, except the one that was begun.
        const groupEvents = String(4096 + Math.floor(random() * 10_000));
        const shipper = startShip(folder, server.url, '--flush', '1s', '--group-events', groupEvents);
        await sleep(ALIVE_MS_MIN + random() * (ALIVE_MS_MAX - ALIVE_MS_MIN));
        if (killed === 'server') {
          await server.kill();
          await sleep(random() * 200);
        }
        shipper.child.kill('SIGKILL');
        const { stderr } = await shipper.ended;
        expect(stderr).not.toMatch(/"level":[56]0| {4}at /);
        if (killed === 'server') await server.restart();
      }
      await load.stop();
      expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
      await expectAll(server, load.rows);
      await mergeFleet(server);
      await expectAll(server, load.rows);
    },
    TEST_MS,
  );
});
