/** Tests a data folder's recording and the imports beside it: files come and go, and none is silently missing. */
import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { PAGE_BYTES } from '../../../../agent/recording/format/schema.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { newFolder, recorded, recordedOn, recordingPath, START } from '../../recorded.ts';
import { type Served, served } from '../../served.ts';

/** Writes a recording of `events` events on `node` and moves it to where an import would put it. */
function importOf(node: string, events: number, data: string, name = `${node}.kreplay`): string {
  const folder = join(data, 'imported');
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  renameSync(recordingPath(recordedOn(node, Array(events).fill({ at: START }))), path);
  return path;
}

async function nodes({ get }: Served): Promise<string[]> {
  const { json } = await get('/api/events');
  return json.events.map(({ node }: { node: string }) => node).sort();
}

async function failure({ get }: Served, path = '/api/events'): Promise<[number, string, string]> {
  const { status, json } = await get(path);
  return [status, json.code, json.detail];
}

/** The names in a folder that was not changed for some time are not read again. */
function settle(...folders: string[]): void {
  for (const folder of folders) utimesSync(folder, 1, 1);
}

test.each([[false], [true]])(
  'an import is served from the next request on; folders are settled: %s',
  async (settles) => {
    const data = recorded([{ at: START }]);
    mkdirSync(join(data, 'imported'));
    if (settles) settle(data, join(data, 'imported'));
    const daemon = await served(data);
    expect(await nodes(daemon)).toEqual(['test-node']);
    importOf('a', 2, data);
    expect(await nodes(daemon)).toEqual(['a', 'a', 'test-node']);
    if (settles) settle(data, join(data, 'imported'));
    expect(await nodes(daemon)).toEqual(['a', 'a', 'test-node']);
    const b = importOf('b', 1, data);
    expect(await nodes(daemon)).toEqual(['a', 'a', 'b', 'test-node']);
    if (settles) settle(data, join(data, 'imported'));
    expect(await nodes(daemon)).toEqual(['a', 'a', 'b', 'test-node']);
    importOf('c', 3, data, 'b.kreplay');
    expect(await nodes(daemon)).toEqual(['a', 'a', 'c', 'c', 'c', 'test-node']);
    unlinkSync(b);
    expect(await nodes(daemon)).toEqual(['a', 'a', 'test-node']);
    rmSync(join(data, 'imported'), { recursive: true });
    expect(await nodes(daemon)).toEqual(['test-node']);
  },
);

test('only complete recordings are imports', async () => {
  const data = recorded([{ at: START }]);
  mkdirSync(join(data, 'imported'));
  for (const name of ['.coming.kreplay', 'coming.kreplay.tmp', 'README'])
    writeFileSync(join(data, 'imported', name), 'not a recording');
  expect(await nodes(await served(data))).toEqual(['test-node']);
});

test('imports are served without a recording of this host', async () => {
  const data = newFolder();
  const daemon = await served(data);
  expect(await failure(daemon)).toEqual([503, 'recording_missing', expect.stringMatching(/start the agent/)]);
  const path = importOf('a', 1, data);
  expect(await nodes(daemon)).toEqual(['a']);
  // An agent has created the file but has not written to it yet.
  writeFileSync(recordingPath(data), '');
  expect(await nodes(daemon)).toEqual(['a']);
  renameSync(recordingPath(recorded([{ at: START }])), recordingPath(data));
  expect(await nodes(daemon)).toEqual(['a', 'test-node']);
  unlinkSync(recordingPath(data));
  expect(await nodes(daemon)).toEqual(['a']);
  unlinkSync(path);
  expect((await failure(daemon))[1]).toBe('recording_missing');
});

function replacedByFolder(path: string): void {
  rmSync(path);
  mkdirSync(path);
}

test.each<[string, string, (path: string) => void]>([
  ['text', 'not_a_recording', (path) => writeFileSync(path, 'hello, this is no database at all'.repeat(100))],
  ['nothing', 'recording_missing', (path) => truncateSync(path)],
  ['a part', 'recording_corrupt', (path) => truncateSync(path, 4096)],
  ['a folder', 'not_a_recording', replacedByFolder],
  [
    'another version',
    'unsupported_format',
    (path) => {
      const database = new Database(path);
      database.pragma('user_version = 99');
      database.close();
    },
  ],
])('the others are served beside an import that is %s, and every answer reports it', async (_what, code, change) => {
  const data = recorded([{ at: START }]);
  const told: string[] = [];
  const daemon = await served(openRecordingStore(data, [], ({ path, error }) => told.push(`${path} ${error.code}`)));
  const path = importOf('a', 1, data);
  expect(await nodes(daemon)).toEqual(['a', 'test-node']);
  const bad = recordingPath(recordedOn('b', [{ at: START }]));
  change(bad);
  rmSync(path);
  renameSync(bad, path);
  const gap = expect.objectContaining({ lost: 0, cause: 'unreadable' });
  const damaged = { complete: false, unreadable: [path], losses: [gap] };
  for (const route of ['/api/events', '/api/transactions', '/api/stats']) {
    const { status, json } = await daemon.get(route);
    expect([route, status, json.coverage]).toEqual([route, 200, expect.objectContaining(damaged)]);
  }
  expect(await nodes(daemon)).toEqual(['test-node']);
  expect((await daemon.get('/api/nodes')).json.nodes).toEqual(['test-node']);
  const ready = await daemon.get('/readyz');
  expect(ready).toMatchObject({ status: 200, json: { unreadable: [{ file: path, code }] } });
  expect(ready.json.unreadable[0].reason).not.toMatch(/\n|node_modules|at \w+ \(/);
  expect((await daemon.get('/metrics')).text).toContain('kreplay_unreadable_imports 1');
  // The transaction may be in the file that cannot be read.
  expect(await failure(daemon, '/api/transactions/x')).toEqual([503, code, expect.stringContaining(path)]);
  expect(told).toEqual([`${path} ${code}`]);
  rmSync(path, { recursive: true });
  expect(await nodes(daemon)).toEqual(['test-node']);
  expect((await daemon.get('/api/events')).json.coverage).toMatchObject({ complete: true, losses: [] });
  expect((await daemon.get('/readyz')).json.unreadable).toEqual([]);
  expect((await failure(daemon, '/api/transactions/x'))[0]).toBe(404);
});

test('an import that is no longer readable is reported only if its node is requested', async () => {
  const data = recorded([{ at: START }]);
  const path = importOf('a', 1, data);
  const daemon = await served(data);
  expect(await nodes(daemon)).toEqual(['a', 'test-node']);
  writeFileSync(`${path}.new`, 'not a recording'.repeat(100));
  renameSync(`${path}.new`, path);
  const coverage = async (query: string) => (await daemon.get(`/api/events?${query}`)).json.coverage;
  expect(await coverage('node=test-node')).toMatchObject({ complete: true, losses: [] });
  expect(await coverage('node=a')).toMatchObject({ complete: false, unreadable: [path] });
});

test('an import that cannot be read to its end is left out', async () => {
  const data = recorded([{ at: START }]);
  const rows = Array.from({ length: 3000 }, (_, i) => ({ at: START + BigInt(i), transaction: `order-${i}` }));
  const folder = recordedOn('a', rows);
  mkdirSync(join(data, 'imported'));
  const path = join(data, 'imported', 'a.kreplay');
  renameSync(recordingPath(folder), path);
  const daemon = await served(data);
  expect((await daemon.get('/api/events?limit=5000')).json.events).toHaveLength(3001);
  const database = new Database(path, { readonly: true });
  const page = database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'segment_context'").pluck().get();
  database.close();
  const bytes = readFileSync(path);
  bytes[(Number(page) - 1) * PAGE_BYTES + 500]! ^= 1;
  writeFileSync(`${path}.new`, bytes);
  renameSync(`${path}.new`, path);
  const { status, json } = await daemon.get('/api/events?transaction_id=order-7');
  expect(status).toBe(200);
  expect(json).toMatchObject({ events: [], coverage: { complete: false, unreadable: [path] } });
});

test('a recording named on the command line has to stay', async () => {
  const [a, b] = ['a', 'b'].map((node) => recordingPath(recordedOn(node, [{ at: START }])));
  const daemon = await served(openRecordingStore(undefined, [a!, b!]));
  expect(await nodes(daemon)).toEqual(['a', 'b']);
  unlinkSync(b!);
  expect(await failure(daemon)).toEqual([503, 'recording_missing', expect.stringContaining(b!)]);
  writeFileSync(b!, 'not a database, and longer than its header would be'.repeat(20));
  expect(await failure(daemon)).toEqual([503, 'not_a_recording', expect.stringContaining(b!)]);
  renameSync(recordingPath(recordedOn('c', [{ at: START }])), b!);
  expect(await nodes(daemon)).toEqual(['a', 'c']);
});

test('a scan continues over files that are removed during it', async () => {
  const data = recorded(Array.from({ length: 5000 }, (_, i) => ({ at: START + BigInt(i) * 2n })));
  const path = importOf('a', 5000, data);
  const store = openRecordingStore(data);
  const scan = store.scan({ filter: {}, order: 'asc' });
  let events = scan.next().value!.block.rowCount;
  unlinkSync(path);
  // A store looks for files once in a turn of the event loop.
  await nextTurn();
  expect(store.nodes()).toEqual(['test-node']);
  for (const { block } of scan) events += block.rowCount;
  expect(events).toBe(10_000);
  store.close();
});

test('a dangling link does not count as an unreadable import', async () => {
  const data = recorded([{ at: START }]);
  const target = importOf('a', 1, newFolder());
  mkdirSync(join(data, 'imported'));
  const link = join(data, 'imported', 'link.kreplay');
  symlinkSync(target, link);
  const daemon = await served(data);
  expect(await nodes(daemon)).toEqual(['a', 'test-node']);
  renameSync(target, `${target}.away`);
  expect(await nodes(daemon)).toEqual(['test-node']);
  const { unreadable } = (await daemon.get('/readyz')).json;
  expect(unreadable).toEqual([
    { file: link, code: 'not_a_recording', reason: expect.stringContaining('is not a file') },
  ]);
  renameSync(`${target}.away`, target);
  expect(await nodes(daemon)).toEqual(['a', 'test-node']);
});

test('events that retention removed are reported once by copies', async () => {
  const data = recorded([{ at: START }]);
  const copy = importOf('a', 1, data);
  const removed = (path: string, count: number) => {
    const database = new Database(path);
    database.exec('DELETE FROM loss');
    const add = database.prepare("INSERT INTO loss (from_ns, to_ns, cause, count) VALUES (?, ?, 'retention', ?)");
    add.run(START, START + BigInt(count), count);
    database.close();
  };
  removed(copy, 5);
  copyFileSync(copy, join(data, 'imported', 'b.kreplay'));
  removed(copy, 9);
  const daemon = await served(data);
  expect((await daemon.get('/api/events')).json.coverage).toMatchObject({ lost: 9, losses: [{ lost: 9 }] });
});

/** A recording of one event with `name` as its service and node, and the recording's id. */
function recordingOf(name: string): { path: string; recordingId: string } {
  const path = recordingPath(recordedOn(name, [{ at: START, service: name, transaction: name }]));
  const database = new Database(path, { readonly: true });
  const recordingId = database.prepare("SELECT value FROM meta WHERE key = 'recording_id'").pluck().get() as string;
  database.close();
  return { path, recordingId };
}

test.each(['imported', 'named', 'live'])(
  'a recording that is %s and overwritten in place is read again',
  async (source) => {
    const data = newFolder();
    mkdirSync(join(data, 'imported'));
    const path = source === 'imported' ? join(data, 'imported', 'it.kreplay') : recordingPath(data);
    const [first, second] = [recordingOf('first'), recordingOf('other')];
    copyFileSync(first.path, path);
    const daemon = await served(source === 'named' ? openRecordingStore(undefined, [path]) : data);
    const found = async () => {
      const { events } = (await daemon.get('/api/events')).json;
      const { transactions } = (await daemon.get('/api/transactions')).json;
      const ids = transactions.map(({ transaction_id }: { transaction_id: string }) => transaction_id);
      const { recordings } = (await daemon.get('/readyz')).json;
      return [
        ...events.map(({ node, service_name }: Record<string, string>) => [node, service_name]),
        ids,
        recordings[0].recording_id,
      ];
    };
    expect(await found()).toEqual([['first', 'first'], ['first'], first.recordingId]);
    copyFileSync(second.path, path);
    expect(await found()).toEqual([['other', 'other'], ['other'], second.recordingId]);
  },
);
