/** Tests that a tail of a fleet gives each event once, in order or as late, and that none is missed after a break. */
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import type { Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { createFleetStore } from '../../../../daemon/store/fleet/fleet_store.ts';
import { decodePosition, encodePosition } from '../../../../daemon/store/fleet/follow.ts';
import type { EventFilter, Followed, FollowPosition, Store } from '../../../../daemon/store/store.ts';
import { type ClickHouseServer, endServers, startServer } from '../../../clickhouse/server.ts';
import { times } from '../../../repeats.ts';
import { appendRows, newFolder, newWriter, type Row, recordingPath, START } from '../../recorded.ts';
import { newFleet, shipAll } from './shipped.ts';

const SECOND = 1_000_000_000n;
const LAG_NS = 20n * SECOND;
const signal = new AbortController().signal;
let server: ClickHouseServer;
let fleet: Fleet;
let store: Store;
let databases = 0;

beforeAll(async () => {
  server = await startServer();
});
beforeEach(async () => {
  await begin();
});
afterEach(() => store?.close());
afterAll(endServers);

async function begin(): Promise<void> {
  fleet = await newFleet(server, `fleet_${++databases}`);
  store = createFleetStore(fleet, { tailLagNs: LAG_NS });
}

/** A node whose recording is sent after each append; all of it is sent again. */
function newNode(name: string) {
  const folder = newFolder();
  return async (rows: Row[], more?: (writer: ReturnType<typeof newWriter>) => void) => {
    const writer = newWriter(folder, name);
    appendRows(writer, rows);
    more?.(writer);
    writer.close();
    await shipAll(fleet, recordingPath(folder));
  };
}

/** Events that began so many seconds after the start. */
const at = (...seconds: number[]): Row[] => seconds.map((s) => ({ at: START + BigInt(Math.round(s * 1e9)) }));

/** Reads all that is due when it is so many seconds after the start. */
async function read(position: FollowPosition, seconds: number, filter: EventFilter = {}) {
  const nowNs = START + BigInt(seconds) * SECOND;
  const followed: Followed[] = [];
  for (let complete = false, next = position; ; ) {
    const request = { filter, position: next, horizonNs: nowNs, nowNs };
    const batch = (await store.follow(request, signal))!;
    followed.push(...batch.followed);
    ({ complete, position: next } = batch);
    if (complete) return { followed, position: next, seconds: secondsOf(followed), late: secondsOf(followed, true) };
  }
}

function secondsOf(followed: readonly Followed[], isLate = false): number[] {
  return followed.flatMap((one) => {
    if (one.kind !== 'event' || one.isLate !== isLate) return [];
    return [Number(BigInt(/"timestamp_ns":(\d+)/.exec(one.json)![1]!) - START) / 1e9];
  });
}

const startAt = (seconds: number, sinceS?: number, filter: EventFilter = {}) =>
  store.startFollowing(
    filter,
    START + BigInt(seconds) * SECOND,
    sinceS === undefined ? undefined : START + BigInt(sinceS) * SECOND,
  );

test('a position is what its id says, and a damaged id is none', () => {
  const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  const key = fc.record({ timestampNs: u64, recording: u64, number: u64 });
  const arrivedS = fc.bigInt({ min: 0n, max: 2n ** 32n - 1n });
  fc.assert(
    fc.property(fc.record({ fromNs: u64, key, arrivedS }), fc.nat(), (position, flip) => {
      const id = encodePosition(position);
      expect(id).toHaveLength(55);
      expect(decodePosition(id)).toEqual(position);
      const bytes = Buffer.from(id, 'base64url');
      bytes[flip % bytes.length]! ^= 1 << (flip % 8);
      expect(decodePosition(bytes.toString('base64url'))).toBeUndefined();
    }),
  );
});

describe('a tail of a fleet', () => {
  test('holds events back, gives them once and in order, and those that came after them as late', async () => {
    const [a, b] = [newNode('node-a'), newNode('node-b')];
    await a(at(1, 70, 90));
    let tail = await read(await startAt(100), 100);
    expect([tail.seconds, tail.late]).toEqual([[], []]);
    await a(at(95, 105));
    await b(at(94, 99, 104));
    tail = await read(tail.position, 101);
    expect([tail.seconds, tail.late]).toEqual([[], []]);
    tail = await read(tail.position, 120);
    expect([tail.seconds, tail.late]).toEqual([[90, 94, 95, 99], []]);
    await b(at(60, 99.5, 104.5));
    await a(at(98));
    tail = await read(tail.position, 121);
    expect([tail.seconds, tail.late.toSorted()]).toEqual([[], [60, 98, 99.5]]);
    tail = await read(tail.position, 130);
    expect([tail.seconds, tail.late]).toEqual([[104, 104.5, 105], []]);
    await sleep(7000);
    tail = await read(tail.position, 140);
    expect([tail.seconds, tail.late]).toEqual([[], []]);
    await a(at(139.5));
    await b(at(10));
    tail = await read(tail.position, 160);
    expect([tail.seconds, tail.late]).toEqual([[139.5], [10]]);
  }, 30_000);

  test('goes on from the id of each event with all that follows, after a restart too', async () => {
    const a = newNode('node-a');
    await a(at(50, 100, 101, 102));
    const first = await read(await startAt(110, 60), 122);
    expect(first.seconds).toEqual([100, 101, 102]);
    await a(at(99, 103, 104));
    const second = await read(first.position, 140);
    expect([second.late, second.seconds]).toEqual([[99], [103, 104]]);
    const events = [...first.followed, ...second.followed].filter(({ kind }) => kind === 'event');
    for (const [i, { id }] of events.entries()) {
      await store.close();
      store = createFleetStore(await newFleet(server, `fleet_${databases}`), { tailLagNs: LAG_NS });
      const resumed = await read(store.parseFollowPosition(id)!, 140);
      const rest = [100, 101, 102, 99, 103, 104].slice(i + 1).filter((s) => s !== 99);
      expect(resumed.seconds).toEqual(rest);
      // It arrived within the overlap.
      if (i < 3) expect([...resumed.seconds, ...resumed.late]).toContain(99);
    }
    expect(store.parseFollowPosition('x')).toBeUndefined();
  });

  test('gives the events of a group when all of it has arrived', async () => {
    const [a, b] = [newNode('node-a'), newNode('node-b')];
    const start = await startAt(110, 60);
    await a(at(90, 95));
    const columns = 'recording, first_number, end_number, node, n, t_min, t_max, end_max';
    const { database } = fleet.connection;
    const segments = await server.sql(`SELECT ${columns} FROM ${database}.segment FORMAT TabSeparated`);
    await server.sql(`TRUNCATE TABLE ${database}.segment`);
    await b(at(80, 96, 98));
    let tail = await read(start, 116);
    expect([tail.seconds, tail.late]).toEqual([[80, 96], []]);
    await server.sql(`INSERT INTO ${database}.segment (${columns}) FORMAT TabSeparated`, segments);
    tail = await read(tail.position, 120);
    expect([tail.seconds, tail.late]).toEqual([[98], [90, 95]]);
  });

  test('gives many late events, in batches, once', async () => {
    const [a, b] = [newNode('node-a'), newNode('node-b')];
    await a(at(100));
    const tail = await read(await startAt(150), 150);
    await b(at(...Array.from({ length: 3000 }, (_, i) => i / 100)));
    await a(at(...Array.from({ length: 1500 }, (_, i) => 110 + i / 1000)));
    const { late, seconds, followed } = await read(tail.position, 151);
    expect(seconds).toEqual([]);
    expect(late.toSorted((x, y) => x - y)).toEqual([
      ...Array.from({ length: 3000 }, (_, i) => i / 100),
      ...Array.from({ length: 1500 }, (_, i) => 110 + i / 1000),
    ]);
    expect(new Set(followed.flatMap((one) => (one.kind === 'event' ? [one.json] : []))).size).toBe(4500);
  }, 30_000);

  test('has losses and events of its nodes only, and what a filter selects', async () => {
    const [a, b] = [newNode('node-a'), newNode('node-b')];
    const lost = (seconds: number) => (writer: ReturnType<typeof newWriter>) =>
      writer.recordLoss({
        ...{ cause: 'ring_full', eventType: null, count: 7 },
        ...{ fromNs: START + BigInt(seconds) * SECOND, toNs: START + BigInt(seconds + 1) * SECOND },
      });
    await a(at(1), lost(1));
    const filter = { nodes: ['node-a'], services: ['shop'] };
    const start = await startAt(100, undefined, filter);
    await a([...at(100), { at: START + 101n * SECOND, service: 'pay' }], lost(90));
    await b(at(102), lost(91));
    const { followed, seconds } = await read(start, 130, filter);
    expect(seconds).toEqual([100]);
    const losses = followed.flatMap((one) => (one.kind === 'lost' ? [one.loss] : []));
    // Its agent ended, and began again.
    expect(losses.filter(({ cause }) => cause !== 'agent_stopped')).toMatchObject([
      { node: 'node-a', cause: 'ring_full', lost: 7, fromNs: START + 90n * SECOND },
    ]);
    expect(losses.filter(({ node }) => node !== 'node-a')).toEqual([]);
    const excluding = { excluded: { nodes: ['node-a'] } };
    expect((await read(await startAt(100, 0, excluding), 130, excluding)).seconds).toEqual([102]);
  });

  test('misses nothing, whatever is sent when, and wherever it breaks', async () => {
    const step = fc.oneof(
      fc.record({ starts: fc.array(fc.nat(60), { minLength: 1, maxLength: 6 }), node: fc.nat(1) }),
      fc.record({ pass: fc.integer({ min: 1, max: 15 }) }),
      fc.constant({ isBroken: true }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 12 }), async (steps) => {
        await begin();
        const nodes = [newNode('node-a'), newNode('node-b')];
        let now = 40;
        let position = await startAt(now, 0);
        const given: string[] = [];
        let [sent, hasBroken] = [0, false];
        const take = async (seconds: number) => {
          const { followed, position: next } = await read(position, seconds);
          position = next;
          const keys = followed.flatMap((one) =>
            one.kind === 'event' ? [/"event_id":"([^"]*)"/.exec(one.json)![1]!] : [],
          );
          given.push(...keys);
          const ordered = secondsOf(followed);
          expect(ordered).toEqual(ordered.toSorted((x, y) => x - y));
        };
        for (const one of steps) {
          if ('starts' in one) {
            await nodes[one.node]!(at(...one.starts));
            sent += one.starts.length;
          } else if ('pass' in one) {
            now += one.pass;
            await take(now);
          } else {
            position = store.parseFollowPosition(position.id)!;
            hasBroken = true;
          }
        }
        await take(200);
        expect(new Set(given).size).toBe(sent);
        if (!hasBroken) expect(given).toHaveLength(sent);
        await store.close();
      }),
      { numRuns: times(4) },
    );
  }, 180_000);
});
