/** Tests events and losses whose times are far apart: a quiet node, and a clock that was set. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, START } from '../daemon/recorded.ts';
import { countAt, rowsAt } from './centre.ts';
import { emptyFleet, expectAll, expectSame, forgetPosition, mergeFleet, startFleet, stateOf } from './fleet.ts';
import { shipHere } from './here.ts';
import { loadRow, loadRows } from './load.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterEach(async () => {
  await emptyFleet(server);
});
afterAll(endServers);

const HOUR_NS = 3_600_000_000_000n;
const DAY_NS = 24n * HOUR_NS;

/** Rows at so many times that lie `stepNs` apart, in a mixed order. */
function spread(count: number, stepNs: bigint): Row[] {
  return Array.from({ length: 600 }, (_, i) => loadRow(i, START + BigInt((i * 1009) % count) * stepNs + BigInt(i)));
}

/** Records rows as one segment: a writer seals what it has when it ends. */
function append(folder: string, rows: readonly Row[], nowNs?: bigint): void {
  const writer = newWriter(folder, undefined, nowNs);
  appendRows(writer, rows, rows.length);
  writer.close();
}

async function shipTwice(folder: string): Promise<void> {
  expect((await shipHere(folder, server.url)).log).toBe('');
  forgetPosition(folder);
  expect((await shipHere(folder, server.url, { claims: true, eventsMax: 400 })).log).toBe('');
}

describe('a quiet node', () => {
  // A server makes files for each column and hour, so the hours are few more than one insert may have.
  test.each([
    ['over 110 hours', spread(110, HOUR_NS)],
    ['on 100 of 200 days', spread(100, 2n * DAY_NS)],
  ])('records a segment %s: its events arrive, each once', async (_, rows) => {
    const folder = newFolder();
    append(folder, rows);
    expect((await shipHere(folder, server.url)).log).toBe('');
    expect(await countAt(server, 'SELECT count() FROM kreplay.segment')).toBe(1);
    await expectAll(server, rows);
  });

  test.each([
    ['hours', 16, HOUR_NS],
    ['days', 8, DAY_NS],
    ['minutes', 60, 60_000_000_000n],
  ] as const)('records a segment in each of many %s: all arrive, once', async (_, count, stepNs) => {
    const rows = Array.from({ length: count }, (_, i) => loadRow(i, START + BigInt(i) * stepNs));
    const folder = newFolder();
    for (const row of rows) append(folder, [row], row.at);
    await shipTwice(folder);
    await expectAll(server, rows);
  });

  test('200 losses on as many days arrive, each once', async () => {
    const wanted = new Map<number, string>();
    const folder = recorded([], (writer) => {
      for (let i = 0; i < 200; i++) {
        const fromNs = START + BigInt((i * 7) % 200) * DAY_NS;
        writer.recordLoss({ fromNs, toNs: fromNs + 5n, cause: 'ring_full', eventType: null, count: i + 1 });
        wanted.set(i + 1, `${fromNs} ${i + 1}`);
      }
    });
    await shipTwice(folder);
    await mergeFleet(server);
    const rows = await rowsAt(server, "SELECT loss_id, from_ns, count FROM kreplay.loss WHERE cause = 'ring_full'");
    expect(rows.length).toBe(200);
    expectSame(new Map(rows.map((row) => [Number(row.loss_id), `${row.from_ns} ${row.count}`])), wanted);
  });
});

test('a node that is behind says so from the start of the longest call on that has not arrived', async () => {
  const folder = newFolder();
  append(folder, loadRows(600));
  // The shipper sends sealed segments only, and this writer has not sealed its segment.
  const writer = newWriter(folder);
  appendRows(writer, [{ ...loadRow(600), at: START + 5n, duration: HOUR_NS }]);
  writer.flush();
  expect((await shipHere(folder, server.url)).log).toBe('');
  const [row] = await rowsAt(server, 'SELECT watermark_ns, backlog FROM kreplay.node ORDER BY at DESC LIMIT 1');
  expect(row).toMatchObject({ watermark_ns: String(START + 5n), backlog: '1' });
  writer.close();
  await shipHere(folder, server.url);
  const after = await rowsAt(
    server,
    'SELECT watermark_ns, alive_ns, backlog FROM kreplay.node ORDER BY at DESC LIMIT 1',
  );
  expect(after).toMatchObject([{ watermark_ns: after[0]!.alive_ns, backlog: '0' }]);
});

describe('a clock that was set', () => {
  test.each([
    ['back by five hours', -5n * HOUR_NS],
    ['back by a year', -365n * DAY_NS],
    ['forward by ten years', 3650n * DAY_NS],
  ])('%s between and within segments keeps all events', async (_, by) => {
    const set = (count: number, first: number) => loadRows(count, first).map((row) => ({ ...row, at: row.at + by }));
    const segments = [[...loadRows(300), ...set(150, 300)], set(150, 450), loadRows(100, 600)];
    const folder = newFolder();
    for (const rows of segments) append(folder, rows);
    const rows = segments.flat();
    await shipTwice(folder);
    await expectAll(server, rows);
    await mergeFleet(server);
    await expectAll(server, rows);
  });

  test('from the future back to now leaves the state of the node up to date', async () => {
    const folder = newFolder();
    append(folder, loadRows(10));
    await shipHere(folder, server.url);
    const columns = 'node, machine, claim, created_ns, alive_ns, ended_ns, shipped_number';
    const future = `at + ${3650n * DAY_NS}`;
    await server.sql(
      `INSERT INTO kreplay.node (recording, at, ${columns}) SELECT recording, ${future}, ${columns} FROM kreplay.node`,
    );
    // The shipper has noted that report, as its clock was in the future too.
    const path = join(stateOf(folder), 'position.json');
    const position = JSON.parse(readFileSync(path, 'utf8')) as { saidNs: string };
    writeFileSync(path, JSON.stringify({ ...position, saidNs: String(BigInt(position.saidNs) + 3650n * DAY_NS) }));
    append(folder, loadRows(10, 10));
    await shipHere(folder, server.url);
    expect(await countAt(server, 'SELECT argMax(shipped_number, at) FROM kreplay.node')).toBe(20);
  });
});
