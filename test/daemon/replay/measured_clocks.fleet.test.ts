/** Tests replays of a fleet with the offsets that its nodes have measured, over HTTP, with a real server. */
import { join } from 'node:path';
import { type ClickHouseServer, endServers } from '../../clickhouse/server.ts';
import { startFleet } from '../../ship/fleet.ts';
import { shipHere } from '../../ship/here.ts';
import { kreplay, type Running, start } from '../command_line.ts';
import { newFolder, type Row, recordedOn, recordingPath, START } from '../recorded.ts';

const SECOND = 1_000_000_000n;
const SESSIONS = '/api/replay/sessions';
const WHAT_IF = '/api/replay/whatif';
const TRANSACTION = 'order-1';

/** Lag of the clock of node-b; it answers each write of node-a after a second. */
const BEHIND_NS = 5n * SECOND;
const CAUSES = [0n, 10n, 20n].map((seconds) => START + seconds * SECOND);
const rowAt = (at: bigint, transaction = TRANSACTION): Row => ({ at, duration: SECOND / 2n, transaction, tid: 7 });

let server: ClickHouseServer;
let daemon: Running & { url: string };
const stateFile = join(newFolder(), 'state.sqlite');

beforeAll(async () => {
  server = await startFleet();
  const cause = CAUSES.map((at) => rowAt(at));
  const effect = CAUSES.map((at) => rowAt(at + SECOND - BEHIND_NS));
  const other = [rowAt(START + 60n * SECOND, 'order-2')];
  await shipHere(recordedOn('node-a', cause), server.url);
  await shipHere(recordedOn('node-b', effect), server.url);
  await shipHere(recordedOn('node-c', other), server.url);
  daemon = await startDaemon();
}, 60_000);
afterAll(async () => {
  if (daemon) await end(daemon);
  await endServers();
});

async function startDaemon(): Promise<Running & { url: string }> {
  const one = start('daemon', '--listen', '127.0.0.1:0', '--state', stateFile, '--fleet-url', server.url);
  const [, url = ''] = / at (http:\S+)\n$/.exec(await one.printed(/ at http:\S+\n$/)) ?? [];
  return { ...one, url };
}

async function end({ child, ended }: Running): Promise<void> {
  child.kill('SIGTERM');
  await ended;
}

/** Later than all that was said before, as a shipper of a new recording says it. */
let said = 0;
async function say(node: string, offsetNs: bigint, uncertaintyNs: bigint): Promise<void> {
  const at = (BigInt(Date.now()) + 60_000n + BigInt(++said)) * 1_000_000n;
  await server.sql(
    `INSERT INTO kreplay.node (recording, at, node, created_ns, alive_ns, watermark_ns, clock_offset_ns, clock_uncertainty_ns)
      VALUES (${said}, ${at}, '${node}', 1, 1, 1, ${offsetNs}, ${uncertaintyNs})`,
  );
}

async function ask(path: string, body?: object) {
  const sent = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(`${daemon.url}${path}`, sent);
  return { status: response.status, json: JSON.parse(await response.text()) };
}

async function timelineOf(sessionId: string): Promise<[string, number][]> {
  const { json } = await ask(`${SESSIONS}/${sessionId}/timeline`);
  return json.events.map((event: { node: string; replay_offset_ns: number }) => [
    event.node,
    event.replay_offset_ns / 1e9,
  ]);
}

const MEASURED = { transaction_id: TRANSACTION, clock_offsets_ns: 'measured' };
const ALIGNED = [
  ['node-a', 0],
  ['node-b', 1],
  ['node-a', 10],
  ['node-b', 11],
  ['node-a', 20],
  ['node-b', 21],
];
const NONE = { offset_ns: 0, source: 'none', uncertainty_ns: null };

describe('measured offsets of a fleet', () => {
  test('are none where a shipper found its clock to agree with the server', async () => {
    const { status, json } = await ask(SESSIONS, MEASURED);
    expect([status, json.clock]).toEqual([201, ['a', 'b'].map((x) => ({ node: `node-${x}`, stepped_ns: 0, ...NONE }))]);
    expect((await timelineOf(json.session_id))[0]).toEqual(['node-b', 0]);
  });

  test('are the latest of each node, and those within three uncertainties are left out', async () => {
    await say('node-b', 77n * SECOND, SECOND);
    await say('node-a', SECOND, SECOND / 2n);
    await say('node-b', BEHIND_NS, SECOND / 2n);
    // A node of another transaction does not matter.
    await say('node-c', 1000n * SECOND, SECOND);
    const { status, json } = await ask(SESSIONS, MEASURED);
    const clock = [
      { node: 'node-a', stepped_ns: 0, ...NONE },
      { node: 'node-b', stepped_ns: 0, offset_ns: 5e9, source: 'measured', uncertainty_ns: 5e8 },
    ];
    expect([status, json.clock]).toEqual([201, clock]);
    expect(await timelineOf(json.session_id)).toEqual(ALIGNED);

    const projected = await ask(WHAT_IF, MEASURED);
    expect(projected.json).toMatchObject({ clock, duration_ns: 21.5e9 });
    const curves = await ask(WHAT_IF, { where: {}, clock_offsets_ns: 'measured' });
    expect(curves.json.transactions).toEqual([
      { transaction_id: 'order-2', curve: [{ events: 1, end_ns: 5e8 }] },
      { transaction_id: TRANSACTION, curve: projected.json.curve },
    ]);
  });

  test('are applied by the commands, which name them', async () => {
    await say('node-a', 0n, SECOND / 2n);
    await say('node-b', BEHIND_NS, SECOND / 2n);
    const asked = ['--clock-offset', 'measured', '--url', daemon.url];
    expect(await kreplay('whatif', TRANSACTION, ...asked, '--output', 'table')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('clock of node-b: +5.000s, measured within 500.000ms\n'),
    });
    const played = await kreplay('replay', TRANSACTION, ...asked, '--speed', '1000', '--output', 'ndjson');
    const events = played.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.map(({ node, replay }) => [node, replay.offset_ns / 1e9])).toEqual(ALIGNED);
    const both = await kreplay('whatif', TRANSACTION, ...asked, '--clock-offset', 'node-b=5s');
    expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('or measured alone') });
    const recording = recordingPath(recordedOn('node-a', [rowAt(START)]));
    const alone = await kreplay('whatif', TRANSACTION, '--clock-offset', 'measured', '--recording', recording);
    expect(alone).toMatchObject({ code: 1, stderr: expect.stringContaining('this daemon serves recordings') });
  });

  test('are those of the time when the session was made, also after a restart', async () => {
    await say('node-a', 0n, SECOND / 2n);
    await say('node-b', BEHIND_NS, SECOND / 2n);
    const { clock, session_id } = (await ask(SESSIONS, MEASURED)).json;
    await say('node-b', -20n * SECOND, SECOND / 2n);
    await end(daemon);
    daemon = await startDaemon();
    expect(await timelineOf(session_id)).toEqual(ALIGNED);
    expect((await ask(`${SESSIONS}/${session_id}`)).json.clock).toEqual(clock);
    const [, later] = (await ask(SESSIONS, MEASURED)).json.clock;
    expect(later).toMatchObject({ node: 'node-b', offset_ns: -20e9, source: 'measured' });
  });

  test('are not there for a node whose latest row has none, and given ones stay possible', async () => {
    await say('node-b', BEHIND_NS, SECOND / 2n);
    await say('node-b', 0n, 0n);
    expect((await ask(WHAT_IF, MEASURED)).json.clock[1]).toMatchObject({ node: 'node-b', ...NONE });
    const given = { transaction_id: TRANSACTION, clock_offsets_ns: { 'node-b': 5e9 } };
    expect((await ask(WHAT_IF, given)).json.clock[1]).toMatchObject({ source: 'override', uncertainty_ns: null });
  });

  test('of a transaction that the fleet does not have are not what is missing', async () => {
    for (const path of [SESSIONS, WHAT_IF]) {
      const { status, json } = await ask(path, { ...MEASURED, transaction_id: 'unknown' });
      expect([status, json.code]).toEqual([404, 'transaction_not_found']);
    }
  });
});
