/**
 * Tests a daemon whose file is missing, foreign, of another version, damaged or replaced: each is reported, none is
 * fatal.
 */

import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { FORMAT_VERSION } from '../../../../agent/recording/format/schema.ts';
import { formatTime } from '../../../../daemon/base/time_text.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { SILENT_AFTER_NS } from '../../../../daemon/store/written_span.ts';
import { appendRows, NODE, newFolder, newWriter, recorded, recordingPath, START } from '../../recorded.ts';
import { type Served, serve } from '../../served.ts';

const opened: Served[] = [];
afterAll(() => Promise.all(opened.map((served) => served.close())));

async function served(data: string | Recordings): Promise<Served> {
  const one = await serve(data);
  opened.push(one);
  return one;
}

async function outcome({ get }: Served, path = '/api/events'): Promise<[number, unknown]> {
  const { status, json } = await get(path);
  return [status, json.code ?? json.events?.length];
}

async function agentState({ get }: Served): Promise<unknown> {
  const { status, recordings } = (await get('/readyz')).json;
  // The daemon is ready without an agent: what was recorded can be queried.
  expect(status).toBe('ready');
  const { state, alive_at } = recordings[0].agent;
  return [state, alive_at];
}

test('a recording that appears later is opened automatically', async () => {
  const folder = join(newFolder(), 'later');
  const daemon = await served(folder);
  for (const path of [
    '/api/events',
    '/readyz',
    '/api/services',
    '/api/stats',
    '/api/transactions',
    '/api/heatmap',
    '/api/differences',
    '/api/transactions/x',
    '/api/events/x',
  ])
    expect([path, ...(await outcome(daemon, path))]).toEqual([path, 503, 'recording_missing']);
  expect((await daemon.get('/api/events')).json.detail).toMatch(/start the agent/);
  expect((await daemon.get('/healthz')).status).toBe(200);

  mkdirSync(folder);
  const writer = newWriter(folder);
  expect(await outcome(daemon)).toEqual([200, 0]);
  appendRows(writer, [{ at: START }]);
  expect(await outcome(daemon)).toEqual([200, 1]);
  expect((await daemon.get('/readyz')).json).toEqual({
    status: 'ready',
    unreadable: [],
    fleet: null,
    sessions: { kept: false, failure: null },
    recordings: [
      {
        recording_id: expect.stringMatching(/^[0-9a-f]{16}$/),
        node: 'test-node',
        source: 'live',
        damaged: false,
        agent: { state: 'recording', alive_at: '2025-11-21T00:00:00.000Z' },
      },
    ],
  });
  daemon.setNow(START + SILENT_AFTER_NS + 1n);
  expect(await agentState(daemon)).toEqual(['silent', '2025-11-21T00:00:00.000Z']);
  writer.close();
  expect(await agentState(daemon)).toEqual(['stopped', '2025-11-21T00:00:00.000Z']);
  expect(await outcome(daemon)).toEqual([200, 1]);
});

test('a replaced recording is opened again', async () => {
  const folder = recorded([{ at: START }, { at: START + 1n }]);
  const daemon = await served(folder);
  const { json } = await daemon.get('/api/events?limit=1');
  const other = recorded([{ at: START + 1n }, { at: START + 2n }, { at: START + 3n }]);
  renameSync(recordingPath(other), recordingPath(folder));
  expect(await outcome(daemon)).toEqual([200, 3]);
  // A cursor contains a time and an id, so it still means the same place.
  const next = await daemon.get(`/api/events?limit=1&cursor=${json.next_cursor}`);
  expect([next.status, next.text.includes(`"timestamp_ns":${START + 1n},`)]).toEqual([200, true]);
  rmSync(recordingPath(folder));
  expect(await outcome(daemon)).toEqual([503, 'recording_missing']);
});

test('data may be a recording itself', async () => {
  expect(await outcome(await served(recordingPath(recorded([{ at: START }]))))).toEqual([200, 1]);
});

function damaged(change: (path: string) => void): string {
  const path = recordingPath(recorded(Array.from({ length: 100 }, (_, i) => ({ at: START + BigInt(i) }))));
  change(path);
  return path;
}

const withDatabase = (work: (database: Database.Database) => void) => (path: string) => {
  const database = new Database(path);
  work(database);
  database.close();
};

test.each<[string, string, (path: string) => void]>([
  ['text', 'not_a_recording', (path) => writeFileSync(path, 'hello, this is no database at all'.repeat(100))],
  ['another program’s database', 'not_a_recording', withDatabase((database) => database.pragma('application_id = 1'))],
  [
    'a later format',
    'unsupported_format',
    withDatabase((database) => database.pragma(`user_version = ${FORMAT_VERSION + 1}`)),
  ],
  ['an earlier format', 'unsupported_format', withDatabase((database) => database.pragma('user_version = 0'))],
  ['without tables', 'recording_corrupt', withDatabase((database) => database.exec('DROP TABLE segment'))],
  ['cut short', 'recording_corrupt', (path) => truncateSync(path, 4096)],
])('%s is a 503 %s', async (_name, code, change) => {
  const daemon = await served(damaged(change));
  const { status, json } = await daemon.get('/api/events');
  expect([status, json.code]).toEqual([503, code]);
  expect(json.detail).not.toMatch(/\n|node_modules|at \w+ \(/);
  expect((await daemon.get('/healthz')).status).toBe(200);
});

/** Damages the first segment, whichever table holds its columns. */
const flipBits = withDatabase((database) => {
  database.exec("UPDATE segment SET data = CAST('x' || substr(data, 2) AS BLOB) WHERE first_number = 0 AND data <> ''");
  database.exec("UPDATE segment_piece SET data = CAST('x' || substr(data, 2) AS BLOB) WHERE piece_key < 256");
});

test('a damaged segment is left out and reported as a loss', async () => {
  const rows = 5000;
  const path = recordingPath(recorded(Array.from({ length: rows }, (_, i) => ({ at: START + BigInt(i) }))));
  let lost = 0;
  withDatabase((database) => {
    lost = database.prepare<[], number>('SELECT event_count FROM segment WHERE first_number = 0').pluck().get()!;
  })(path);
  flipBits(path);
  const daemon = await served(path);
  expect(await outcome(daemon, '/api/events?limit=10000')).toEqual([200, rows - lost]);
  const { text } = await daemon.get('/api/events?limit=1&coverage=full');
  expect((await daemon.get('/readyz')).json.recordings[0].damaged).toBe(true);
  const lastNs = START + BigInt(lost - 1);
  const gap = `{"from":${START},"from_time":"${formatTime(START)}","to":${lastNs},"to_time":"${formatTime(lastNs)}","lost":${lost},"cause":"damaged","node":"${NODE}"}`;
  expect(text).toContain(`"coverage":{"complete":false,"lost":${lost},`);
  expect(text).toContain(`"gaps":[${gap}],`);
  const after = await daemon.get(`/api/events?from=${START + BigInt(lost)}&limit=1`);
  expect(after.json.coverage).toMatchObject({ complete: true, lost: 0, losses: [] });
});

test('an event of a damaged segment is returned from an intact copy', async () => {
  const folder = recorded([{ at: START, pid: 7 }]);
  const bad = join(newFolder(), 'damaged.kreplay');
  copyFileSync(recordingPath(folder), bad);
  flipBits(bad);
  const [line] = await (await served(folder)).lines('/api/events');
  const path = `/api/events/${JSON.parse(line!).event_id}`;
  expect(await outcome(await served(bad), path)).toEqual([503, 'recording_corrupt']);
  for (const paths of [
    [bad, recordingPath(folder)],
    [recordingPath(folder), bad],
  ])
    expect((await (await served(openRecordingStore(undefined, paths))).get(path)).text).toBe(line);
});

test('reading does not change the recording', async () => {
  const folder = recorded([{ at: START }]);
  const before = readFileSync(recordingPath(folder));
  copyFileSync(recordingPath(folder), join(folder, 'copy'));
  await outcome(await served(folder));
  expect(readFileSync(recordingPath(folder)).equals(before)).toBe(true);
});
