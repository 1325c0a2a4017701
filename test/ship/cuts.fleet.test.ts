/** Tests connections that end at any byte, and answers that are lost: each event arrives, and counts once. */
import { type ClickHouseServer, endServers, endWithServers } from '../clickhouse/server.ts';
import { times } from '../repeats.ts';
import { countAt } from './centre.ts';
import { type Fault, type FaultProxy, startFaultProxy } from './fault_proxy.ts';
import { emptyFleet, expectAll, forgetPosition, mergeFleet, startFleet } from './fleet.ts';
import { shipHere } from './here.ts';
import { loadRows, randomNumbers, recordedInSegments } from './load.ts';

let server: ClickHouseServer;
let proxy: FaultProxy;

beforeAll(async () => {
  server = await startFleet();
  proxy = await startFaultProxy(() => server.port);
  endWithServers(() => proxy.close());
});
afterEach(async () => {
  await emptyFleet(server);
});
afterAll(endServers);

const GROUPS = 5;
/** Most bytes of a group are then those of its events. */
const GROUP_EVENTS = 1024;
const rows = loadRows(GROUPS * GROUP_EVENTS);

/** Pieces of answers to a group and to what is asked after a failure, twice: a group that fails too often waits long. */
const ANSWERS_A_GROUP = 70;

type Kind = Exclude<Fault['kind'], 'lose_answer_to'>;

describe('a connection that ends', () => {
  test.each([
    ['within a request', times(6), 'cut_request'],
    ['within an answer', times(4), 'cut_answer'],
    ['before an answer comes back', times(4), 'lose_answer'],
  ] as [string, number, Kind][])(
    '%s, %i times, loses and doubles nothing',
    async (_, count, kind) => {
      const folder = recordedInSegments(rows, GROUP_EVENTS);
      const random = randomNumbers(kind.length);
      const before = { ...proxy.passed };
      await shipHere(folder, proxy.url, { eventsMax: GROUP_EVENTS });
      await emptyFleet(server);
      const ofGroup = {
        cut_request: (proxy.passed.request - before.request) / GROUPS,
        cut_answer: (proxy.passed.answer - before.answer) / GROUPS,
        lose_answer: ANSWERS_A_GROUP,
      }[kind];
      const within = () => Math.floor(random() * ofGroup);
      let faults = 0;
      const causing = (async () => {
        for (; faults < count; faults++) {
          const at = within();
          await proxy.next(kind === 'lose_answer' ? { kind, answers: at } : { kind, bytes: at });
        }
      })();
      // It is sent again from the beginning, to empty tables, until all faults have happened.
      for (let groupEvents = GROUP_EVENTS; faults < count; groupEvents += 100) {
        await emptyFleet(server);
        forgetPosition(folder);
        const sending = shipHere(folder, proxy.url, { claims: true, eventsMax: groupEvents });
        // A command gives up after a minute of failures.
        const hasEnded = await sending.then(() => true).catch(() => false);
        if (hasEnded) expect(await countAt(server, 'SELECT uniqExact(number) FROM kreplay.event')).toBe(rows.length);
      }
      await causing;
      await shipHere(folder, server.url);
      await expectAll(server, rows);
      await mergeFleet(server);
      await expectAll(server, rows);
    },
    times(240_000),
  );
});
