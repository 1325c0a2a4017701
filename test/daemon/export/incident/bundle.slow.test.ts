/** Tests incident bundles: they are ordinary recordings, and contain only the selected events. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { PAGE_BYTES } from '../../../../agent/recording/format/schema.ts';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { importRecording } from '../../../../daemon/export/incident/imported.ts';
import type { ExportSelection } from '../../../../daemon/export/incident/selection.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { hosted } from '../../hosted.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, recordingPath, START } from '../../recorded.ts';
import { serve } from '../../served.ts';
import { CORNER_ROWS, changeWith, exported, readWith, recordedEvents } from '../exported.ts';

const ORDER_1: ExportSelection = { filter: { transactionId: 'order-1' }, window: {} };

/** Rows of many transactions that arrive in another order than that of their starts. */
function manyRows(count: number): Row[] {
  return Array.from({ length: count }, (_, i): Row => {
    const common = {
      at: START + BigInt((i * 7919) % count),
      transaction: `order-${i % 13}`,
      service: `service-${i % 5}`,
    };
    if (i % 3 !== 0) return { ...common, file: `/srv/${i % 17}`, requested: BigInt(i) };
    const other = { service: 'other', transaction: `order-${i % 11}`, bytes: BigInt(i) };
    return { ...common, type: 'block_io', device: 'vda', origins: [other] };
  });
}

const ids = (data: string) => recordedEvents(data).map(({ event_id: id }) => id);

test('every event is unchanged, including its id', async () => {
  const data = recorded(CORNER_ROWS);
  const { path, events, bytes } = await exported(data, 'bundle');
  expect(recordedEvents(path)).toEqual(recordedEvents(data));
  expect([events, bytes]).toEqual([CORNER_ROWS.length, readFileSync(path).length]);
});

test('only the requested events are included, in their order', async () => {
  const data = recorded(manyRows(4500));
  const { path } = await exported(data, 'bundle', { selection: ORDER_1 });
  const all = recordedEvents(data) as { transaction_id: string; origins?: { transaction_id: string }[] }[];
  const wanted = all.filter(
    ({ transaction_id: own, origins }) =>
      own === 'order-1' || origins?.some(({ transaction_id: of }) => of === 'order-1'),
  );
  expect(recordedEvents(path)).toEqual(wanted);
  expect(wanted.length).toBeGreaterThan(400);
});

test('texts of other events are nowhere in the file', async () => {
  const data = recorded([
    { at: START, transaction: 'order-1', file: '/srv/mine', comm: 'mine' },
    { at: START + 1n, transaction: 'order-2', file: '/srv/theirs', comm: 'theirs', service: 'theirs-too' },
  ]);
  const bytes = readFileSync((await exported(data, 'bundle', { selection: ORDER_1 })).path);
  expect(['order-1', '/srv/mine', 'order-2', 'theirs'].filter((text) => bytes.includes(text))).toEqual([
    'order-1',
    '/srv/mine',
  ]);
});

test('losses, clock steps and the name of the node are included, and nothing else identifies the machine', async () => {
  const data = recorded(CORNER_ROWS, (writer) => {
    writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 3, fromNs: START, toNs: START + 9n });
    writer.recordLoss({ cause: 'no_memory', eventType: null, count: 1, fromNs: START + 50n, toNs: START + 60n });
    writer.recordClock({ bootNs: 5n, offsetNs: START - 5n, kind: 'start', suspendedNs: 0n });
  });
  const selection = { filter: {}, window: { toNs: START + 10n } };
  const { path, lost } = await exported(data, 'bundle', { selection });
  const [source, bundle] = [recordingPath(data), path].map((path) => openReader(path));
  expect([lost, bundle!.losses()]).toEqual([3, source!.losses().slice(0, 1)]);
  expect(bundle!.clockSteps()).toEqual(source!.clockSteps());
  const anyones = { bootId: '', machineId: '', retainBytes: null };
  expect(bundle!.info()).toEqual({ ...source!.info(), ...anyones });
  for (const reader of [source, bundle]) reader!.close();
});

test('a bundle reports the events that could not be read', async () => {
  const data = recorded(manyRows(6000));
  const broken = 'UPDATE segment SET data = zeroblob(length(data)) WHERE first_number > 0';
  changeWith(recordingPath(data), broken);
  const { path, events, lost } = await exported(data, 'bundle');
  expect(events + lost).toBe(6000);
  expect(lost).toBeGreaterThan(0);
  const reader = openReader(path);
  expect(new Set(reader.losses().map(({ cause }) => cause))).toEqual(new Set(['damaged']));
  expect(reader.losses().reduce((sum, { count }) => sum + count, 0)).toBe(lost);
  reader.close();
  expect(importRecording(path, newFolder()).info.eventCount).toBe(events);
});

test('damaged texts of the recording are reported as damage', async () => {
  const data = recorded(manyRows(6000));
  const place = readWith('sqlite3', [recordingPath(data), "SELECT rootpage FROM sqlite_schema WHERE name = 'name'"]);
  const bytes = readFileSync(recordingPath(data));
  const start = (Number(place) - 1) * PAGE_BYTES;
  writeFileSync(recordingPath(data), bytes.fill(0xff, start, start + PAGE_BYTES));
  const { code, stderr } = await hosted('export', '--data', data, '--from', '0', '--output', join(newFolder(), 'b'));
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^kreplay: .*recording\.kreplay: it is damaged.*\n$/)]);
});

test('the daemon returns the same answers from a bundle as from the recording', async () => {
  const data = recorded(manyRows(3000));
  const { path } = await exported(data, 'bundle', { selection: ORDER_1 });
  const [whole, part] = [await serve(data), await serve(path)];
  const events = '/api/events?transaction_id=order-1&limit=10000';
  // Its end time, and the gaps after it, differ between the two recordings.
  const eventsOf = (text: string) => text.slice(0, text.indexOf(',"next_cursor"'));
  const answers = await Promise.all([part, whole].map(async ({ get }) => eventsOf((await get(events)).text)));
  expect(answers[0]).toBe(answers[1]);
  expect(answers[0]!.length).toBeGreaterThan(1000);
  const desc = `${events}&order=desc&event_type=block_io&service=other`;
  expect(eventsOf((await part.get(desc)).text)).toBe(eventsOf((await whole.get(desc)).text));
  const [id] = ids(path);
  expect((await part.get(`/api/events/${id}`)).text).toBe((await whole.get(`/api/events/${id}`)).text);
  expect((await part.get(`/api/events/${ids(data).find((other) => !ids(path).includes(other))}`)).status).toBe(404);
  const transactionOf = async ({ get }: typeof part) => {
    const { coverage, ...transaction } = (await get('/api/transactions/order-1')).json;
    expect(coverage).toMatchObject({ complete: true, lost: 0, losses: [] });
    return transaction;
  };
  expect(await transactionOf(part)).toEqual(await transactionOf(whole));
  await Promise.all([whole.close(), part.close()]);
});

test('an imported bundle of a bundle has the same events', async () => {
  const data = recorded(manyRows(500));
  const first = await exported(data, 'bundle', { selection: ORDER_1 });
  const second = await exported(first.path, 'bundle');
  const { path } = importRecording(second.path, newFolder());
  expect(recordedEvents(path)).toEqual(recordedEvents(first.path));
});

test('a redacted bundle is another recording, with pseudonyms for every text', async () => {
  const data = recorded([{ at: START, transaction: 'order-1', file: '/srv/mine', comm: 'mine' }]);
  const { path } = await exported(data, 'bundle', { redact: true });
  const [source, bundle] = [recordingPath(data), path].map((path) => openReader(path));
  expect(bundle!.info()).toMatchObject({ node: 'node-1', bootId: '', machineId: '', eventCount: 1 });
  expect(bundle!.info().recordingId).not.toBe(source!.info().recordingId);
  expect(bundle!.readTransaction('transaction-1')!.eventCount).toBe(1);
  for (const reader of [source, bundle]) reader!.close();
  expect(recordedEvents(path)[0]).toMatchObject({ file: '/path-1/path-2', comm: 'comm-1', service_name: 'service-1' });
});

test('two redacted bundles of one recording are two recordings', async () => {
  const data = newFolder();
  const writer = newWriter(data);
  appendRows(writer, [{ at: START + 100n, transaction: 'alice', service: 'alice' }]);
  const first = await exported(data, 'bundle', { redact: true });
  appendRows(writer, [{ at: START, transaction: 'bob', service: 'bob' }]);
  writer.close();
  const second = await exported(data, 'bundle', { redact: true });
  const both = await serve(openRecordingStore(undefined, [first.path, second.path]));
  const { json } = await both.get('/api/events');
  expect(json.events).toHaveLength(3);
  expect(new Set(json.events.map(({ event_id: id }: { event_id: string }) => id)).size).toBe(3);
  await both.close();
});

test('a bundle contains any selection of any recording', async () => {
  const count = 4500;
  const data = recorded(manyRows(count));
  const selection = fc.record({
    from: fc.integer({ min: 0, max: count }),
    services: fc.subarray(['service-0', 'service-3', 'other'], { minLength: 1 }),
  });
  await fc.assert(
    fc.asyncProperty(selection, async ({ from, services }) => {
      const filter = { fromNs: START + BigInt(from), services };
      const whole = await exported(data, 'ndjson', { selection: { filter, window: {} } }).catch(() => undefined);
      const part = await exported(data, 'bundle', { selection: { filter, window: {} } }).catch(() => undefined);
      expect(part?.events).toBe(whole?.events);
      if (!whole || !part) return;
      expect(readFileSync((await exported(part.path, 'ndjson')).path)).toEqual(readFileSync(whole.path));
    }),
    { numRuns: 4 },
  );
});

test('a bundle is the default format', async () => {
  const data = recorded(CORNER_ROWS);
  const output = join(newFolder(), 'incident.kreplay');
  const { code, stdout } = await hosted('export', '--data', data, '--transaction', 'order-1', '--output', output);
  expect([code, stdout]).toEqual([0, `kreplay export: 2 events, ${readFileSync(output).length} bytes to ${output}\n`]);
  expect(readWith('sqlite3', ['-readonly', output, 'PRAGMA integrity_check; PRAGMA journal_mode'])).toBe(
    'ok\ndelete\n',
  );
  expect((await hosted('sql', '--recording', output, 'select count(*) as n from events')).stdout).toBe('{"n":2}\n');
});
