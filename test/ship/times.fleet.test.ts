/** Tests events and losses whose times are far apart: a quiet node, and a clock that was set. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ClickHouseServer, endServers, isInstalled } from '../clickhouse/server.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, START } from '../daemon/recorded.ts';
import { countAt, rowsAt } from './centre.ts';
import {
  emptyFleet,
  expectAll,
  expectSame,
  forgetPosition,
  mergeFleet,
  shipOnce,
  startFleet,
  stateOf,
} from './fleet.ts';
import { loadRow, loadRows } from './load.ts';

const withServer = isInstalled ? describe : describe.skip;
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
});
afterEach(async () => {
  if (isInstalled) await emptyFleet(server);
});
afterAll(endServers);

const HOUR_NS = 3_600_000_000_000n;
const DAY_NS = 24n * HOUR_NS;

/** Rows at so many times that lie `stepNs` apart, in a mixed order. */
function spread(count: number, stepNs: bigint): Row[] {
  return Array.from({ length: 4096 }, (_, i) => loadRow(i, START + BigInt((i * 1009) % count) * stepNs + BigInt(i)));
}

/** Records rows as one segment. */
function asSegment(rows: readonly Row[]): string {
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(writer, rows, rows.length);
  writer.close();
  return folder;
}

async function shipTwice(folder: string): Promise<void> {
  expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0, stderr: '' });
  forgetPosition(folder);
  expect(await shipOnce(folder, server.url, '--claim', '--group-events', '4096')).toMatchObject({
    code: 0,
    stderr: '',
  });
}

withServer('a quiet node', () => {
  // A server makes files for each column and hour, so the hours are few more than one insert may have.
  test.each([
    ['over 110 hours', spread(110, HOUR_NS)],
    ['on 100 of 200 days', spread(100, 2n * DAY_NS)],
  ])('records a segment %s: its events arrive, each once', async (_, rows) => {
    const folder = asSegment(rows);
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0, stderr: '' });
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
    // Each writer seals what it has when it ends.
    for (const row of rows) {
      const writer = newWriter(folder, undefined, row.at);
      appendRows(writer, [row]);
      writer.close();
    }
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

withServer('a clock that was set', () => {
  test.each([
    ['back by five hours', -5n * HOUR_NS],
    ['back by a year', -365n * DAY_NS],
    ['forward by ten years', 3650n * DAY_NS],
  ])('%s between and within segments keeps all events', async (_, by) => {
    const before = loadRows(4500);
    const after = loadRows(4500).map((row, i) => ({ ...loadRow(4500 + i), at: row.at + by }));
    const rows = [...before, ...after, ...loadRows(1000, 9000)];
    const folder = recorded(rows);
    await shipTwice(folder);
    await expectAll(server, rows);
    await mergeFleet(server);
    await expectAll(server, rows);
  });

  test('from the future back to now leaves the state of the node up to date', async () => {
    const folder = newFolder();
    const record = (count: number, first: number) => {
      const writer = newWriter(folder);
      appendRows(writer, loadRows(count, first));
      writer.close();
    };
    record(10, 0);
    await shipOnce(folder, server.url);
    const columns = 'node, machine, claim, created_ns, alive_ns, ended_ns, shipped_number';
    const future = `at + ${3650n * DAY_NS}`;
    await server.sql(
      `INSERT INTO kreplay.node (recording, at, ${columns}) SELECT recording, ${future}, ${columns} FROM kreplay.node`,
    );
    // The shipper has noted that report, as its clock was in the future too.
    const path = join(stateOf(folder), 'position.json');
    const position = JSON.parse(readFileSync(path, 'utf8')) as { saidNs: string };
    writeFileSync(path, JSON.stringify({ ...position, saidNs: String(BigInt(position.saidNs) + 3650n * DAY_NS) }));
    record(10, 10);
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
    expect(await countAt(server, 'SELECT argMax(shipped_number, at) FROM kreplay.node')).toBe(20);
  });
});
